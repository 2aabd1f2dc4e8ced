"""`run.py compare`: what it reads from the runs themselves, stored attributions and validation losses."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.tensorboard import SummaryWriter

from lightning_xai.commands.trade_off import read_trade_off
from tests.commands.conftest import command, refusal
from tests.report.comparison.test_agreement import random_scores, store
from tests.report.conftest import write_results

pytestmark = pytest.mark.slow

AUROC = "rationale/auroc"
F1 = {("test", "", "", "macro_f1"): 0.5}


def logged_run(
    experiment: Path,
    seed: int,
    losses: list[tuple[float, float]],
    *,
    best: int,
    bound: float | None = None,
    steps_of_epoch: int = 10,
    term: Mapping[str, object] | None = None,
):
    """Writes a run with the losses (guidance, log_loss) of each epoch of 10 batches, its best epoch and its term."""
    write_results(experiment, seed, F1)
    folder = experiment / f"seed{seed}"
    with SummaryWriter(str(folder)) as writer:
        for epoch, (guidance, log_loss) in enumerate(losses):
            writer.add_scalar("val/guidance", guidance, 10 * epoch + 9)
            writer.add_scalar("val/log_loss", log_loss, 10 * epoch + 9)
        writer.add_scalar("val/log_loss", 9.0, 10 * (best + 1))  # a test of the best checkpoint on other data
    (folder / "checkpoints").mkdir()
    loops = {"fit_loop": {"epoch_loop.state_dict": {"_batches_that_stepped": 10 * best + 9}}}
    torch.save({"global_step": steps_of_epoch * (best + 1), "loops": loops}, folder / "checkpoints" / "best.ckpt")
    facts = {"format": 2, "status": "finished"} | ({} if bound is None else {"bounds": {"guidance": [0.5, bound]}})
    facts |= {"settings": {f"model.init_args.terms.guidance.{name}": value for name, value in (term or {}).items()}}
    (folder / "manifest.json").write_text(json.dumps(facts))
    return experiment


def test_validation_losses_are_those_of_the_best_epoch(tmp_path):
    first = logged_run(tmp_path / "lambda0", 0, [(0.5, 0.75), (0.25, 0.5), (0.125, 0.625)], best=1)
    second = logged_run(tmp_path / "constrained", 0, [(0.0625, 0.75), (0.5, 0.125)], best=0, bound=0.03125)
    printed = command("compare", first, second, "--trade_off", "guidance")
    assert [line.split() for line in printed.splitlines() if line.count("0.") == 2] == [
        ["lambda0", "0.2500", "0.5000"],
        ["constrained", "0.0625", "0.7500"],
    ]
    folder = tmp_path / "report" / "compare"
    assert pd.read_csv(folder / "trade_off.csv")[["x", "y"]].to_numpy().tolist() == [[0.25, 0.5], [0.0625, 0.75]]
    assert (folder / "trade_off.png").is_file()


def test_the_line_of_a_trade_off_is_at_the_bound_of_constrained_runs(tmp_path):
    runs = {"free": None, "constrained": 0.03125}
    folders = {name: logged_run(tmp_path / name, 0, [(0.5, 0.75)], best=0, bound=b) for name, b in runs.items()}
    for names, expected in ((["free", "constrained"], [0.03125, 0.03125]), (["free"], [])):
        found = read_trade_off({name: folders[name] for name in names}, "guidance", pd.DataFrame(), metric=AUROC)
        lines = [line for line in found.figure(names).axes[0].get_lines() if line.get_linestyle() == "--"]
        assert [x for line in lines for x in np.asarray(line.get_xdata())] == expected


def test_the_line_is_that_of_runs_with_points_or_else_of_runs_that_missed_their_bound(tmp_path):
    free = logged_run(tmp_path / "free", 0, [(0.5, 0.75)], best=0)
    met = logged_run(tmp_path / "met", 0, [(0.5, 0.75)], best=0, bound=0.0625)
    missed = logged_run(tmp_path / "missed", 0, [(0.5, 0.75)], best=0, bound=0.125)
    (missed / "seed0" / "checkpoints" / "best.ckpt").unlink()
    for others, expected in (([missed], 0.125), ([missed, met], 0.0625)):
        folders = {folder.name: folder for folder in (free, *others)}
        assert read_trade_off(folders, "guidance", pd.DataFrame(), metric=AUROC).bound == expected


def test_the_best_epoch_of_a_run_that_accumulates_batches_is_found(tmp_path):
    run = logged_run(tmp_path / "a", 0, [(0.5, 0.75), (0.25, 0.5), (0.125, 0.25)], best=1, steps_of_epoch=2)
    assert "a    0.2500    0.5000" in command("compare", run, "--trade_off", "guidance")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "typo"], "no run has the preset 'typo'"),
        (["--plausibility", "typo"], "no run has the metric 'typo'"),
        (["--plausibility", "macro_f1"], "no run has the metric 'macro_f1': the runs have no metrics of attributions"),
        (["--faithfulness", "typo"], "faithfulness is typo, but no run has a normalized metric"),
        (["--out_of_domain", "test"], "'test' is both in_domain and out_of_domain"),
        (["--metric", "log_loss"], "metric is log_loss, which can exceed 1"),
        (["--trade_off", "log_loss"], "trade_off is log_loss, the other axis"),
        (["--trade_off", "guidance"], "have different bounds for guidance: 0.125, 0.25; compare"),
    ],
)
def test_options_that_would_show_nothing_or_something_else_are_refused(arguments, message, tmp_path):
    runs = [logged_run(tmp_path / str(bound), 0, [(0.5, 0.75)], best=0, bound=bound) for bound in (0.125, 0.25)]
    assert message in refusal("compare", *runs, *arguments)


def test_a_damaged_checkpoint_or_a_file_in_place_of_the_output_gives_one_line(tmp_path):
    experiment = logged_run(tmp_path / "lambda0", 0, [(0.5, 0.75)], best=0)
    (tmp_path / "file").write_text("")
    assert "results.csv cannot be written (File exists)" in refusal(
        "compare", experiment, "--output", tmp_path / "file"
    )
    (experiment / "seed0" / "checkpoints" / "best.ckpt").write_text("cut")
    assert "best.ckpt is not loaded: it is damaged" in refusal("compare", experiment, "--trade_off", "guidance")


def test_a_run_that_did_not_validate_the_term_is_named_before_anything_is_written(tmp_path):
    experiment = logged_run(tmp_path / "lambda0", 0, [(0.5, 0.75)], best=0)
    assert "seed0 logged no val/vat: train this run with" in refusal("compare", experiment, "--trade_off", "vat")
    assert not (tmp_path / "report").exists()


def test_plausibility_on_validation_is_that_of_the_guided_method(tmp_path):
    settings = {"class_path": "Guidance", "init_args.method.class_path": "Rollout", "init_args.method.init_args.f": 0.5}
    experiment = logged_run(tmp_path / "joint", 0, [(0.5, 0.75)], best=0, term=settings)
    measured = {("validation", "er", name, AUROC): value for name, value in {"attention": 0.25, "roll": 0.875}.items()}
    write_results(experiment, 0, F1 | measured | {("test", "er", "roll", AUROC): 0.625})
    methods = {"attention.class_path": "Attention", "roll.class_path": "Rollout", "roll.init_args.f": 0.5}
    file = experiment / "seed0" / "manifest.json"
    facts = json.loads(file.read_text())
    facts["settings"] |= {f"trainer.callbacks.1.init_args.methods.{name}": value for name, value in methods.items()}
    file.write_text(json.dumps(facts))
    printed = command("compare", experiment, "--trade_off", "guidance")
    assert ["joint", "0.5000", "0.7500", "0.8750"] in [line.split() for line in printed.splitlines()]


def test_losses_of_the_same_name_are_compared_only_if_they_differ_in_their_weight(tmp_path):
    settings = {"class_path": "Guidance", "init_args.method.class_path": "Attention", "init_args.weight": 0.0}
    names: dict[str, dict] = {
        "none": {},
        "five": {"init_args.weight": 5.0},
        "rollout": {"init_args.method.class_path": "Rollout"},
    }
    none, five, rollout = (
        logged_run(tmp_path / name, 0, [(0.5, 0.75)], best=0, term=settings | changed)
        for name, changed in names.items()
    )
    assert "five" in command("compare", none, five, "--trade_off", "guidance")
    message = refusal("compare", none, five, rollout, "--trade_off", "guidance")
    assert "the term guidance has init_args.method.class_path = Rollout in" in message and "only the weight" in message


def test_a_run_of_an_older_version_may_lack_an_option_that_has_its_default(tmp_path):
    older = {"class_path": "lightning_xai.objectives.terms.vat.VAT", "init_args.weight": 0.0}
    changed: dict[str, dict] = {"older": {}, "newer": {"init_args.projection": "clamp"}}
    runs = [
        logged_run(tmp_path / name, 0, [(0.5, 0.75)], best=0, term=older | options) for name, options in changed.items()
    ]
    assert "newer" in command("compare", *runs, "--trade_off", "guidance")


@pytest.mark.parametrize("named", [True, False])
def test_agreement_is_computed_where_it_is_asked_for(named, tmp_path):
    for name, seed in (("base", 0), ("base", 1), ("joint", 0)):
        write_results(tmp_path / name, seed, F1)
        store(tmp_path / name / f"seed{seed}", random_scores())
    printed = command("compare", tmp_path / "base", tmp_path / "joint", *(["--agreement", "test"] if named else []))
    assert ("Kendall's tau-b with other seeds of base on test" in printed) == named
    assert (tmp_path / "report" / "compare" / "agreement.png").is_file() == named


def test_methods_that_only_some_runs_have_stored_are_named(tmp_path):
    for seed in (0, 1):
        write_results(tmp_path / "base", seed, F1)
        store(tmp_path / "base" / f"seed{seed}", random_scores())
    store(tmp_path / "base" / "seed0", random_scores(), method="rollout")
    printed = command("compare", tmp_path / "base", "--agreement", "test")
    assert "not compared, since some runs have not stored them: rollout" in printed
