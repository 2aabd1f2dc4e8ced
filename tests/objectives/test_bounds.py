"""Bounds from the losses of other runs, and which settings these runs must share with the constrained run."""

from pathlib import Path
from typing import Any

import pytest

from lightning_xai.objectives.bounds import bounds_from, check_same_settings
from lightning_xai.runs.folder import RunFolder

STOPPING = "lightning_xai.callbacks.constrained_stopping.ConstrainedStopping"
HEATMAPS = "lightning_xai.callbacks.heatmaps.Heatmaps"
CALLBACKS = "trainer.callbacks"
GUIDANCE = "model.init_args.terms.guidance"
SETTINGS: dict[str, Any] = {
    "model.class_path": "lightning_xai.objectives.constrained.Constrained", "model.init_args.warmup_fraction": 0.1,
    f"{GUIDANCE}.class_path": "lightning_xai.objectives.terms.explanation_guidance.ExplanationGuidance",
    f"{GUIDANCE}.init_args.method": "attention", "trainer.max_epochs": 4, "trainer.devices": 1,
    f"{CALLBACKS}.0.class_path": HEATMAPS, f"{CALLBACKS}.1.class_path": STOPPING,
    f"{CALLBACKS}.1.init_args.patience": 10, f"{CALLBACKS}.1.init_args.patience_when_met": 5,
}  # fmt: skip


def run(folder: Path, settings: dict[str, Any]) -> RunFolder:
    folder.mkdir()
    made = RunFolder(folder)
    made.write_manifest(settings=settings)
    return made


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("trainer.max_epochs", 5), ("trainer.max_time", "00:01:00:00"), ("trainer.min_epochs", 3),
        ("trainer.overfit_batches", 2), ("trainer.devices", 8), ("trainer.num_nodes", 2), ("trainer.strategy", "ddp"),
        ("trainer.check_val_every_n_epoch", 2), ("trainer.val_check_interval", 0.5),
        (f"{CALLBACKS}.1.init_args.patience", 3),
        (f"{CALLBACKS}.2.class_path", "lightning.pytorch.callbacks.Timer"), (f"{GUIDANCE}.init_args.score", "bce"),
    ],
)  # fmt: skip
def test_setting_that_affects_the_smallest_loss_must_be_shared(tmp_path, name, value):
    ours, theirs = run(tmp_path / "main", SETTINGS), run(tmp_path / "alone", SETTINGS | {name: value})
    with pytest.raises(ValueError, match="found the bound of guidance with other settings"):
        check_same_settings(ours, theirs, "guidance")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed_everything", 7), ("data.init_args.seed", 7), ("trainer.accelerator", "cpu"),
        ("trainer.limit_test_batches", 1), (f"{CALLBACKS}.0.init_args.num_documents", 4),
        (f"{CALLBACKS}.1.init_args.monitor", "val/loss"), (f"{CALLBACKS}.1.init_args.patience_when_met", 2),
        ("model.init_args.bound_margin", 1.1), (f"{GUIDANCE}.init_args.average", "example"),  # the default
    ],
)  # fmt: skip
def test_setting_without_effect_on_the_smallest_loss_may_differ(tmp_path, name, value):
    check_same_settings(run(tmp_path / "main", SETTINGS | {name: value}), run(tmp_path / "alone", SETTINGS), "guidance")


def test_number_of_a_stopping_callback_among_the_callbacks_has_no_effect(tmp_path):
    first = {
        key.replace(f"{CALLBACKS}.1.", f"{CALLBACKS}.0."): value for key, value in SETTINGS.items() if ".0." not in key
    }
    check_same_settings(run(tmp_path / "main", first), run(tmp_path / "alone", SETTINGS), "guidance")


def test_bound_of_the_preset_code_needs_fifty_steps():
    with pytest.raises(ValueError, match="bound_preset is 'code'.*fewer steps: set `bound_preset: paper`"):
        bounds_from([{"train/size": 1.0, "val/size": 1.0}], "size", "code")


def test_bound_of_the_paper_needs_an_epoch():
    with pytest.raises(
        ValueError, match="bound of size has no loss over a whole training epoch.*a validation at its end"
    ):
        bounds_from([{"val/size": 1.0}], "size")


def test_margin_multiplies_the_smallest_training_loss_only():
    minima = [{"train/size": 0.2, "val/size": 0.3}, {"train/size": 0.4, "val/size": 0.5}]
    assert bounds_from(minima, "size", margin=1.1) == (pytest.approx(0.33), pytest.approx(0.4))
