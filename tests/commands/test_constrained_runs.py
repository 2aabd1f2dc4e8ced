"""Runs under constraints: a missed bound ends the run as finished, without a test; two files change single terms."""

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightning_xai.commands.main import main
from lightning_xai.models.checkpoints.checkpoint import read_checkpoint
from lightning_xai.runs.folder import RunFolder
from tests.commands.conftest import command, refusal, save, tiny_config
from tests.runs.processes import owner_of

pytestmark = pytest.mark.slow

IGR = "lightning_xai.objectives.terms.input_gradient.InputGradient"


def constrained_config(bound: float, **trainer: Any) -> dict[str, Any]:
    config = tiny_config(callbacks=[], limit_train_batches=2, max_epochs=1, **trainer)
    config["model"]["class_path"] = "lightning_xai.objectives.constrained.Constrained"
    config["model"]["init_args"] |= {"constraints": {"igr": {"bound": bound}}, "terms": {"igr": {"class_path": IGR}}}
    return config


def printed_arguments(*argv: Any) -> dict[str, Any]:
    """Returns the objective's arguments that --print_config shows."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit):
        main([*map(str, argv), "--print_config"])
    arguments: dict[str, Any] = yaml.safe_load(printed.getvalue())["model"]["init_args"]
    return arguments


def test_missed_bound_ends_the_run_as_finished_without_a_best_checkpoint_and_without_a_test(tmp_path):
    file = save(constrained_config(1e-9), tmp_path / "missed.yaml")
    printed = command("fit", "--config", file, "--runs_dir", tmp_path / "runs")
    run = tmp_path / "runs" / "missed" / "seed0"
    manifest = json.loads((run / "manifest.json").read_text())
    assert "no epoch met the bounds" in printed and "0 of 1 seed of" in printed
    assert re.search(r"\n  igr: smallest loss in validation [\d.e-]+; an epoch must be below 1.1e-09\n", printed)
    assert "explain" not in printed
    assert manifest["status"] == "finished" and manifest["bound_met"] is False
    assert not (run / "checkpoints" / "best.ckpt").exists() and not (run / "results.csv").exists()
    assert "finished already" in command("fit", "--config", file, "--runs_dir", tmp_path / "runs")
    assert "there is no best checkpoint, and the last one is used" in command(
        "explain", "--ckpt", run, "--text", "w3 w4"
    )


def test_met_bound_is_recorded_and_the_run_is_tested(tmp_path):
    file = save(constrained_config(1e3), tmp_path / "met.yaml")
    missed = RunFolder(tmp_path / "runs" / "met" / "seed1")
    missed.path.mkdir(parents=True)
    missed.write_manifest(status="finished", bound_met=False)
    printed = command("fit", "--config", file, "--runs_dir", tmp_path / "runs")
    assert f"1 of 2 seeds of {tmp_path / 'runs' / 'met'} met the bounds" in printed
    run = tmp_path / "runs" / "met" / "seed0"
    assert json.loads((run / "manifest.json").read_text())["bound_met"] is True
    assert (run / "results.csv").exists()


def test_accumulation_and_clipping_of_the_trainer_are_refused_with_the_argument_to_use(tmp_path):
    for name, value in {"gradient_clip_val": 1.0, "accumulate_grad_batches": 2}.items():
        file = save(constrained_config(1.0, **{name: value}), tmp_path / f"{name}.yaml")
        message = refusal("fit", "--config", file, "--runs_dir", tmp_path / "runs")
        assert f"trainer.{name} is {value}" in message and f"set model.init_args.{name} instead" in message


def test_argument_that_the_dual_optimizer_refuses_is_named_before_the_runs_for_a_bound(tmp_path):
    config = constrained_config(1.0)
    optimizer = {"class_path": "torch.optim.RMSprop", "init_args": {"lr": -1.0}}
    config["model"]["init_args"] |= {"constraints": {"igr": {"bound": "auto"}}, "dual_optimizer": optimizer}
    message = refusal("fit", "--config", save(config, tmp_path / "auto.yaml"), "--runs_dir", tmp_path / "runs")
    assert "model.init_args.dual_optimizer: Invalid learning rate: -1.0; correct" in message
    assert not (tmp_path / "runs" / "auto_bounds").exists()


def test_log_loss_is_no_monitor_of_a_run_without_the_own_loss(tmp_path):
    config = tiny_config(callbacks=[])
    config["model"]["init_args"] |= {"task_weight": 0.0, "terms": {"igr": {"class_path": IGR}}}
    message = refusal("fit", "--config", save(config, tmp_path / "only.yaml"), "--runs_dir", tmp_path / "runs")
    assert "checkpoint.monitor is val/log_loss, which is not minimized, because task_weight is 0" in message


def test_a_second_file_and_an_argument_change_single_terms(tmp_path):
    config = tiny_config(callbacks=[])
    config["model"]["init_args"]["terms"] = {"igr": {"class_path": IGR, "init_args": {"weight": 0.5, "wrt": "table"}}}
    noise = {"class_path": "PGD", "init_args": {"epsilon": 0.1}}
    second = {"model": {"init_args": {"terms": {"igr": {"init_args": {"norm": "token_sum"}}, "noise": noise}}}}
    terms = printed_arguments(
        "fit", "--config", save(config, tmp_path / "a.yaml"), "--config", save(second, tmp_path / "b.yaml"),
        "--model.init_args.terms.noise.init_args.weight", "0",
    )["terms"]  # fmt: skip
    igr, pgd = terms["igr"]["init_args"], terms["noise"]["init_args"]
    assert (igr["weight"], igr["wrt"], igr["norm"]) == (0.5, "table", "token_sum")
    assert (pgd["weight"], pgd["epsilon"]) == (0.0, 0.1)
    none = save({"model": {"init_args": {"terms": None}}}, tmp_path / "none.yaml")
    assert not printed_arguments("fit", "--config", tmp_path / "a.yaml", "--config", none)["terms"]


@pytest.mark.parametrize("place", ["model", "terms", "before"])
def test_a_second_file_keeps_the_terms_of_a_file_that_refers_to_them(tmp_path, place):
    config = tiny_config(callbacks=[])
    terms, model = {"igr": {"class_path": IGR, "init_args": {"weight": 0.5}}}, config["model"]
    if place == "before":
        model["class_path"] = "lightning_xai.objectives.input_gradient.InputGradient"
    else:
        save(terms, tmp_path / "terms.yaml")
        model["init_args"]["terms"] = "terms.yaml"
        save(model, tmp_path / "model.yaml")
    config["model"] = "model.yaml" if place == "model" else model
    noise = {"class_path": "PGD", "init_args": {"epsilon": 0.1}}
    second = save({"model": {"init_args": {"terms": {"noise": noise}}}}, tmp_path / "b.yaml")
    printed = printed_arguments("fit", "--config", save(config, tmp_path / "a.yaml"), "--config", second)
    assert set(printed["terms"]) == {"igr", "noise"}


def test_the_configuration_of_a_run_of_before_that_names_pgd_still_loads(tmp_path: Path):
    config = tiny_config(callbacks=[])
    config["model"]["class_path"] = "lightning_xai.objectives.pgd.PGD"
    config["model"]["init_args"] |= {"epsilon": 0.1, "clean_weight": 0.75, "adversarial_weight": 0.25}
    arguments = printed_arguments("fit", "--config", save(config, tmp_path / "old.yaml"))
    assert arguments["task_weight"] == 0.75
    assert arguments["terms"]["pgd"]["init_args"]["weight"] == 0.25


def test_task_of_an_array_that_needs_the_bound_run_of_another_names_the_command_to_run_first(tmp_path):
    config = constrained_config(1.0)
    config["model"]["init_args"] |= {"constraints": {"igr": {"bound": "auto"}}, "bound_seeds": 1}
    file, runs = save(config, tmp_path / "auto.yaml"), tmp_path / "runs"
    with owner_of(RunFolder(runs / "auto_bounds" / "igr" / "seed0").lock_file) as (process, _):
        message = refusal("fit", "--config", file, "--runs_dir", runs, "--seed_everything", "3")
    assert f"auto_bounds/igr/seed0 belongs to process {process.pid}" in message
    assert f"run to its end: python run.py fit --config {file}" in message


def test_bound_auto_comes_from_runs_that_minimize_the_term_alone_and_are_shared_by_all_seeds(tmp_path):
    config = constrained_config(1.0)
    config["model"]["init_args"] |= {"constraints": {"igr": {"bound": "auto"}}, "bound_seeds": 2}
    file, runs = save(config, tmp_path / "auto.yaml"), tmp_path / "runs"
    command("fit", "--config", file, "--runs_dir", runs)
    found = [RunFolder(runs / "auto_bounds" / "igr" / f"seed{seed}") for seed in range(2)]
    minima = [read_checkpoint(str(run.checkpoint("last")))["minima"] for run in found]
    manifest = RunFolder(runs / "auto" / "seed0").manifest
    bound, validation_bound = manifest["bounds"]["igr"]
    assert bound == pytest.approx(1.5 * sum(part["train/igr"] for part in minima) / 2)
    assert validation_bound == pytest.approx(sum(part["val/igr"] for part in minima) / 2)
    results = runs / "auto" / "seed0" / "results.json"
    for retested in (False, True):  # a test in a process of its own reads the bounds from the checkpoint
        if retested:
            command("test", "--config", runs / "auto" / "seed0" / "config.yaml", "--runs_dir", runs)
        facts = json.loads(results.read_text())
        assert facts["bounds"] == {"igr": [bound, validation_bound]} and facts["terms"] == {"igr": "InputGradient"}
        results.unlink()
    (runs / "auto" / "seed0" / "checkpoints" / "last.ckpt").unlink()  # best.ckpt has the bounds, too
    command("fit", "--config", file, "--runs_dir", runs, "--trainer.limit_test_batches", "1")
    assert RunFolder(runs / "auto" / "seed0").manifest["bounds"] == manifest["bounds"]
    assert not found[0].is_tested and "bound: auto" in (runs / "auto" / "seed0" / "config.yaml").read_text()
    before = [run.manifest_file.stat().st_mtime_ns for run in found]
    command("fit", "--config", file, "--runs_dir", runs, "--seed_everything", "5")
    assert [run.manifest_file.stat().st_mtime_ns for run in found] == before
    wide = ("--experiment", "wide", "--model.init_args.bounds_dir", runs / "auto_bounds")
    command("fit", "--config", file, "--runs_dir", runs, *wide, "--model.init_args.bound_margin", "2")
    assert before == [run.manifest_file.stat().st_mtime_ns for run in found] and not (runs / "wide_bounds").exists()
    wide_bound, wide_validation_bound = RunFolder(runs / "wide" / "seed0").manifest["bounds"]["igr"]
    assert (wide_bound, wide_validation_bound) == (pytest.approx(bound * 2 / 1.5), validation_bound)
    config["trainer"]["max_epochs"] = 2
    other = save(config, tmp_path / "auto.yaml")
    message = refusal("fit", "--config", other, "--runs_dir", runs, "--seed_everything", "6")
    assert "found the bound of igr with other settings (trainer.max_epochs)" in message
