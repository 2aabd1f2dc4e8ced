"""Which settings belong to the training of a run, and which to its evaluation."""

from typing import Any, ClassVar

import pytest
from lightning import Callback

from lightning_xai.callbacks.heatmaps import Heatmaps
from lightning_xai.runs.evaluation_settings import (
    changed_evaluation,
    changed_training,
    hash_of_evaluation,
    training_settings,
)
from lightning_xai.runs.settings import run_settings


class Declared(Callback):
    only_evaluates: ClassVar[bool] = True


class Inherits(Heatmaps):
    """Says nothing itself, so it may do more than its base class."""


class Denies(Callback):
    only_evaluates: ClassVar[bool] = False


def callback(name: str, **arguments: Any) -> dict[str, Any]:
    return {"class_path": name, "init_args": arguments}


HERE = "tests.runs.test_evaluation_settings"
STOPPING = callback("lightning.pytorch.callbacks.EarlyStopping", monitor="val/log_loss")
METHODS = callback("lightning_xai.callbacks.attributions.ComputeAttributions", targets="gold", during_fit=False)
MEASURES = callback("lightning_xai.callbacks.evaluation.AttributionEvaluation", preset="eraser", during_fit=False)
HEATMAPS = callback("lightning_xai.callbacks.heatmaps.Heatmaps", num_documents=3)
CACHE = callback("lightning_xai.callbacks.attribution_cache.AttributionCacheWriter", cache_dir=None)
STABILITY = callback("lightning_xai.callbacks.stability.Stability", others=["a", "b"])


def settings(*callbacks: dict, data: dict[str, Any] | None = None, **trainer: Any) -> dict[str, Any]:
    """Returns the flat settings of a run with these callbacks, data arguments and trainer arguments."""
    config = {"trainer": {"max_epochs": 2, "callbacks": list(callbacks)} | trainer}
    return run_settings(
        config | {"data": {"class_path": "TextDataModule", "init_args": {"batch_size": 8} | (data or {})}}
    )


BEFORE = settings(METHODS, STOPPING, MEASURES)


@pytest.mark.parametrize(
    "now",
    [
        settings(STOPPING),
        settings(STOPPING, METHODS, MEASURES, HEATMAPS, CACHE, STABILITY),
        settings(METHODS, MEASURES, callback(f"{HERE}.Declared"), STOPPING),
        settings(METHODS | {"init_args": {"targets": "predicted"}}, STOPPING, MEASURES),
        settings(METHODS, STOPPING, MEASURES, data={"eval_batch_size": 4}),
        settings(METHODS, STOPPING, MEASURES, data={"extra_test_splits": ["books", "dvd"], "predict_split": "books"}),
        settings(METHODS, STOPPING, MEASURES, data={"tune_on_validation": False}),
        settings(METHODS, STOPPING, MEASURES, limit_test_batches=2),
    ],
)
def test_evaluation_alone_differs(now):
    assert changed_training(BEFORE, now) == {}
    assert changed_evaluation(BEFORE, now) and hash_of_evaluation(now) != hash_of_evaluation(BEFORE)


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        (settings(METHODS, STOPPING, MEASURES, max_epochs=3), "trainer.max_epochs"),
        (settings(METHODS, STOPPING, MEASURES, data={"batch_size": 4}), "data.init_args.batch_size"),
        (settings(METHODS, STOPPING, MEASURES, limit_val_batches=2), "trainer.limit_val_batches"),
        (settings(METHODS, STOPPING, MEASURES, precision="bf16-mixed"), "trainer.precision"),
        (settings(METHODS, MEASURES), "trainer.callbacks.0.class_path"),
        (settings(METHODS, STOPPING, callback(f"{HERE}.Denies")), "trainer.callbacks.1.class_path"),
        (settings(METHODS, STOPPING, callback(f"{HERE}.Inherits")), "trainer.callbacks.1.class_path"),
        (settings(METHODS, STOPPING, callback("not.installed.Callback")), "trainer.callbacks.1.class_path"),
        (settings(METHODS, STOPPING, callback("NoModule")), "trainer.callbacks.1.class_path"),
        (settings(STOPPING, METHODS | {"init_args": {"during_fit": True}}), "trainer.callbacks.1.class_path"),
        (settings(STOPPING, MEASURES | {"init_args": {"during_fit": True}}), "trainer.callbacks.1.class_path"),
    ],
)
def test_training_differs_and_is_named(now, changed):
    assert changed in changed_training(BEFORE, now)


def test_what_the_monitor_reads_is_training_and_evaluation():
    during = {"during_fit": True}
    before, now = (
        settings(
            METHODS | {"init_args": during | {"targets": targets}}, MEASURES | {"init_args": during | {"preset": "er"}}
        )
        for targets in ("gold", "predicted")
    )
    assert list(changed_training(before, now)) == changed_evaluation(before, now) != []


def test_order_of_training_callbacks_counts_and_their_position_among_others_does_not():
    other = callback("lightning.pytorch.callbacks.StochasticWeightAveraging")
    assert changed_training(settings(STOPPING, other), settings(HEATMAPS, STOPPING, METHODS, other)) == {}
    assert changed_training(settings(STOPPING, other), settings(other, STOPPING)) != {}


def test_settings_of_a_chain_count_once_it_has_begun():
    fresh, other = (callback("lightning_xai.chains.fresh.FRESH", ratio=ratio) for ratio in (0.2, 0.5))
    without, added = settings(STOPPING, METHODS), settings(fresh, STOPPING)
    for before, now in ((without, added), (added, without), (added, settings(other, STOPPING))):
        assert changed_training(before, now, chain_has_begun=False) == {}
        assert changed_training(before, now) != {}
    patient = settings(fresh, callback("lightning.pytorch.callbacks.EarlyStopping", monitor="val/macro_f1"))
    name = "trainer.callbacks.0.init_args.monitor"  # numbered without the chain
    assert changed_training(without, patient, chain_has_begun=False) == {name: ("val/log_loss", "val/macro_f1")}


def test_evaluation_knows_which_methods_it_follows():
    first, second = METHODS, METHODS | {"init_args": {"targets": "topk"}}
    assert changed_evaluation(settings(first, MEASURES, second), settings(first, second, MEASURES)) != []


def test_single_callback_and_no_callbacks_are_lists_too():
    single = run_settings({"trainer": {"callbacks": HEATMAPS}})
    assert training_settings(single) == training_settings(run_settings({"trainer": {"callbacks": None}})) == {}
    assert changed_evaluation(single, run_settings({"trainer": {"callbacks": [HEATMAPS]}})) == []
