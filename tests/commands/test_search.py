"""`run.py search`: trials in folders of their own, killed and pruned ones, refusals before any work."""

import importlib.util
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from lightning_xai.runs.folder import RunFolder
from lightning_xai.search.study import Study
from tests.commands.conftest import ROOT, command, methods, refusal, save, tiny_config
from tests.commands.test_aml import COMP, aml_config

pytestmark = pytest.mark.slow

if importlib.util.find_spec("optuna") is None:
    pytest.skip("needs optuna", allow_module_level=True)

LR = "model.init_args.optimizer.init_args.lr"
HEAD = "model.init_args.head_lr_factor"


def search_file(folder: Path, config: dict[str, Any] | None = None, **entries: Any) -> str:
    fit = save(config or tiny_config(callbacks=[]), folder / "tiny.yaml")
    plan: dict[str, Any] = {
        "fit": fit,
        "settings": {LR: {"low": 1e-3, "high": 1e-1, "log": True}, HEAD: {"choices": [1.0, 10.0]}},
        "metrics": {"val/log_loss": None},
        "num_trials": 2,
        "sampler": "quasi_random",
    }
    return save(plan | entries, folder / "lr.yaml")


def trials(runs: Path, experiment: str = "search/lr") -> pd.DataFrame:
    return pd.read_csv(runs / experiment / "seed0" / "trials.csv")


def test_shared_trials_find_the_best_of_each_metric(tmp_path):
    file = search_file(tmp_path, share_trials=True, metrics={"val/log_loss": "min", "val/accuracy": None})
    printed = command("search", "--config", file, "--runs_dir", tmp_path / "runs")
    root, rows = tmp_path / "runs" / "search" / "lr", trials(tmp_path / "runs")
    assert rows["status"].tolist() == ["finished"] * 2 and "best trials" in printed
    first, last = (line for line in printed.splitlines() if line.startswith("best so far: val/log_loss "))
    assert re.search(r", val/accuracy \d\.\d{4} \(trial 0\), .* left$", first) and not last.endswith("left")
    assert re.search(r"^shared, trial 0 \(the last is 1\): lr \S+, head_lr_factor \S+$", printed, re.MULTILINE)
    best = rows.iloc[rows["val/log_loss"].argmin()]
    run = RunFolder(root / "shared" / f"{best['number']:03d}" / "seed0")
    steps = json.loads(run.validations_file.read_text())["steps"]
    assert min(values["val/log_loss"] for values in steps.values()) == best["val/log_loss"]
    assert run.is_finished and not run.is_tested and list(run.path.glob("events.*"))
    found = root / "seed0" / "best_log_loss.yaml"
    assert yaml.safe_load(found.read_text())["model"]["init_args"]["head_lr_factor"] == best[HEAD]
    experiment = ["--experiment", "again", "--runs_dir", tmp_path / "runs", "--test_after_fit", "false"]
    command("fit", "--config", tmp_path / "tiny.yaml", "--config", found, *experiment)
    again = RunFolder(tmp_path / "runs" / "again" / "seed0").settings
    assert again is not None and again["model.init_args.optimizer.init_args.lr"] == best[LR]


def test_a_killed_search_goes_on(tmp_path):
    file = search_file(tmp_path, sampler="tpe")
    command("search", "--config", file, "--runs_dir", tmp_path / "whole")
    argv = [sys.executable, str(ROOT / "run.py"), "search", "--config", file, "--runs_dir", str(tmp_path / "killed")]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    second = RunFolder(tmp_path / "killed" / "search" / "lr" / "log_loss" / "001" / "seed0")
    while second.checkpoint("last") is None and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    killed_in = second.manifest["status"]
    printed = command("search", "--config", file, "--runs_dir", tmp_path / "killed")
    assert killed_in == "finished" or "resuming from last.ckpt" in printed and ", trial 1 (the last is 1): " in printed
    pd.testing.assert_frame_equal(trials(tmp_path / "killed"), trials(tmp_path / "whole"))
    assert ", trial 1 (" not in command("search", "--config", file, "--runs_dir", tmp_path / "killed")


def test_a_pruned_trial_says_so_in_its_manifest(tmp_path, monkeypatch):
    monkeypatch.setattr("lightning_xai.search.study.START_TRIALS", 2)
    settings = {LR: {"low": 1e-9, "high": 10.0, "log": True}}
    # many of these learning rates are useless
    file = search_file(tmp_path, settings=settings, sampler="tpe", pruner="median", num_trials=6)
    command("search", "--config", file, "--runs_dir", tmp_path / "runs")
    rows = trials(tmp_path / "runs")
    pruned = rows[rows["status"] == "pruned"]["number"]
    assert len(pruned)
    folder = tmp_path / "runs" / "search" / "lr" / "log_loss"
    assert {RunFolder(folder / f"{number:03d}" / "seed0").manifest["status"] for number in pruned} == {"pruned"}
    # a new study that prunes nothing trains the pruned trials to their end
    (folder.parent / "seed0" / "study.log").unlink()
    file = search_file(tmp_path, settings=settings, sampler="tpe", num_trials=6)
    command("search", "--config", file, "--runs_dir", tmp_path / "runs")
    assert trials(tmp_path / "runs")["status"].tolist() == ["finished"] * 6


def test_a_search_killed_before_it_stored_a_pruned_trial_does_not_train_it_again(tmp_path, monkeypatch):
    monkeypatch.setattr("lightning_xai.search.study.START_TRIALS", 2)
    settings = {LR: {"low": 1e-9, "high": 10.0, "log": True}}
    file = search_file(tmp_path, settings=settings, sampler="tpe", pruner="median", num_trials=6)
    command("search", "--config", file, "--runs_dir", tmp_path / "whole")

    class Killed(BaseException):
        """Ends the process in place of a kill."""

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Study, "prune", killed)
        command("search", "--config", file, "--runs_dir", tmp_path / "killed")
    folder = tmp_path / "killed" / "search" / "lr" / "log_loss"
    (pruned,) = [run for run in folder.glob("*/seed0") if RunFolder(run).manifest["status"] == "pruned"]
    before = {path.name: path.stat().st_mtime_ns for path in pruned.iterdir()}
    command("search", "--config", file, "--runs_dir", tmp_path / "killed")
    assert {path.name: path.stat().st_mtime_ns for path in pruned.iterdir()} == before
    pd.testing.assert_frame_equal(trials(tmp_path / "killed"), trials(tmp_path / "whole"))


def test_aml_trains_the_explained_network_once_and_measures_several_metrics(tmp_path):
    teacher = tiny_config(callbacks=[]) | {"checkpoint": {"monitor": "val/log_loss", "mode": "min"}}
    (tmp_path / "teacher.yaml").write_text(json.dumps({name: teacher[name] for name in ("model", "checkpoint")}))
    sufficiency = COMP | {"class_path": COMP["class_path"].replace("Comprehensiveness", "Sufficiency")}
    config = aml_config(tmp_path / "teacher.yaml")
    config["trainer"]["callbacks"] = []
    weights = {f"model.init_args.loss.{name}_weight": {"low": 0.0, "high": 1.0} for name in ("kept", "inverse", "size")}
    file = search_file(
        tmp_path, config, settings=weights, share_trials=True, options={"model.init_args.more_metrics": [sufficiency]},
        metrics={"val/aml/comprehensiveness": "max", "val/aml/sufficiency": "min"},
    )  # fmt: skip
    command("search", "--config", file, "--runs_dir", tmp_path / "runs")
    folders = sorted(path.parent.relative_to(tmp_path / "runs").as_posix() for path in tmp_path.rglob("manifest.json"))
    assert folders == [
        "search/lr/shared/000/seed0", "search/lr/shared/001/seed0", "search/lr_teacher/seed0",
    ]  # fmt: skip
    assert trials(tmp_path / "runs")["val/aml/sufficiency"].notna().all()


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"settings": {"model.init_args.lrr": {"low": 0.0, "high": 1.0}}}, "lrr"),
        ({"options": {"trainer.max_epoch": 3}}, "max_epoch"),
        (
            {"metrics": {"val/eraser/gradient/f1": "max"}},
            "metric val/eraser/gradient/f1 is never logged in validation: ",
        ),
        ({"metrics": {"val/f1_of_all": None}}, "choose one of val/macro_f1, val/accuracy"),
        ({"metrics": {"val/accuracy": "min"}}, "metric val/accuracy has the direction min, which prefers its worst"),
        ({"options": {"trainer.devices": 2}}, "the run needs 2 processes, but trials run in one"),
    ],
)
def test_a_search_is_refused_before_any_work(entries, message, tmp_path):
    line = refusal("search", "--config", search_file(tmp_path, **entries), "--runs_dir", tmp_path / "runs")
    assert message in line
    assert not list(tmp_path.rglob("study.log"))


def test_the_configuration_of_a_run_is_refused_as_a_search():
    line = refusal("search", "--config", "supervised.yaml")
    assert line.startswith("error: supervised.yaml is the configuration of a run: give the file of a search, such as ")
    assert line.endswith("which names the configuration of its runs under `fit`")


def test_a_number_that_a_callback_of_another_package_logs_can_be_searched(tmp_path):
    probe = {"class_path": "tests.commands.evaluating_callbacks.LogsProbe"}
    file = search_file(tmp_path, tiny_config(callbacks=[probe]), metrics={"val/probe": "max"}, num_trials=1)
    command("search", "--config", file, "--runs_dir", tmp_path / "runs")
    assert trials(tmp_path / "runs")["val/probe"].tolist() == [2.0]


def test_a_searched_number_of_an_evaluation_during_the_fit_needs_a_direction(tmp_path):
    source = methods("random.Random")
    entropy = {"class_path": "lightning_xai.metrics.complexity.Entropy"}
    preset = {
        "class_path": "lightning_xai.callbacks.evaluation.AttributionEvaluation",
        "init_args": {"preset": "own", "metrics": [entropy], "during_fit": True},
    }
    source["init_args"]["during_fit"] = True
    file = search_file(tmp_path, tiny_config(callbacks=[source, preset]), metrics={"val/own/random/entropy": None})
    line = refusal("search", "--config", file, "--runs_dir", tmp_path / "runs")
    assert "metric val/own/random/entropy has no direction: give max or min" in line
