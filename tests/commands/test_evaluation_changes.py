"""Another evaluation of a run needs no other training, in the run itself and in all stages of a chain."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from lightning_xai.runs.evaluation_settings import hash_of_evaluation
from lightning_xai.runs.folder import RunFolder
from tests.commands.conftest import (
    ERASER,
    HEATMAPS,
    METHODS,
    changed,
    command,
    numbers,
    refusal,
    save,
    tiny_config,
    weights,
)

pytestmark = pytest.mark.slow

MODULE = "tests.commands.evaluating_callbacks"
STOPPING = {
    "class_path": "lightning.pytorch.callbacks.EarlyStopping",
    "init_args": {"monitor": "val/accuracy", "mode": "max", "patience": 1, "min_delta": 1.0},  # stops after epoch 2
}
SMALLER = ["--data.init_args.eval_batch_size", "4"]


def configuration(folder: Path, *changes, **trainer) -> str:
    config = tiny_config(**trainer)
    for change in changes:
        change(config)
    return save(config, folder / "tiny.yaml")


def trained_at(run: Path) -> int:
    return (run / "checkpoints" / "last.ckpt").stat().st_mtime_ns


def settings_of(run: Path) -> dict[str, Any]:
    settings = RunFolder(run).settings
    assert settings is not None
    return settings


def tables(run: Path) -> set[str]:
    return {file.name for file in run.glob("results*.csv")}


def test_other_evaluation_of_a_finished_run_only_tests(run_copy, tmp_path):
    config = configuration(tmp_path, callbacks=[METHODS, HEATMAPS])
    argv = ["fit", "--config", config, "--runs_dir", run_copy.parents[1]]
    earlier, trained, begun = numbers(run_copy / "results.csv"), trained_at(run_copy), settings_of(run_copy)
    page, logs = (run_copy / "heatmaps" / "test.html").read_bytes(), sorted(run_copy.glob("events*"))
    printed = command(*argv)
    assert sorted(run_copy.glob("events*")) == logs and list((run_copy / "test").glob("events*"))
    assert f"{run_copy} is trained already, so it is only tested" in printed and trained_at(run_copy) == trained
    kept = f"results_{hash_of_evaluation(begun)}"
    assert f"the results with the earlier evaluation settings are now in {run_copy / kept}.csv" in printed
    assert tables(run_copy) == {"results.csv", f"{kept}.csv"} and numbers(run_copy / f"{kept}.csv").equals(earlier)
    assert json.loads((run_copy / f"{kept}.json").read_text())["settings"] == begun
    assert (run_copy / kept.replace("results", "heatmaps") / "test.html").read_bytes() == page
    assert (run_copy / "heatmaps" / "test.html").is_file()
    table, settings = numbers(run_copy / "results.csv"), settings_of(run_copy)
    assert table.equals(earlier[earlier["preset"] == ""].reset_index(drop=True))
    assert json.loads((run_copy / "results.json").read_text())["settings"] == settings != begun
    assert "finished already" in command(*argv)
    assert "eraser" not in (run_copy / "config.yaml").read_text()
    back = configuration(tmp_path, callbacks=[METHODS, ERASER, HEATMAPS])
    assert "finished already" in command("fit", "--config", back, "--runs_dir", run_copy.parents[1])  # no second test
    assert numbers(run_copy / "results.csv").equals(earlier)
    assert (run_copy / "heatmaps" / "test.html").read_bytes() == page
    assert tables(run_copy) == {"results.csv", f"results_{hash_of_evaluation(settings)}.csv"}
    assert "eraser" in (run_copy / "config.yaml").read_text()


def test_evaluation_of_a_run_without_settings_beside_its_table_may_go_back_and_forth(plain, plain_copy):
    (plain_copy / "results.json").unlink()  # as older versions left it
    argv = ["fit", "--config", plain.config, "--runs_dir", plain_copy.parents[1]]
    assert "finished already" in command(*argv)
    command(*argv, *SMALLER)
    assert len(tables(plain_copy)) == 2
    command(*argv)
    assert numbers(plain_copy / "results.csv").equals(numbers(plain.path / "results.csv"))
    assert len(tables(plain_copy)) == 2


def test_test_with_another_evaluation_leaves_the_results_of_the_run(plain, plain_copy):
    printed = command("test", "--config", plain_copy / "config.yaml", *SMALLER)
    settings = settings_of(plain_copy) | {"data.init_args.eval_batch_size": 4}
    assert str(plain_copy / f"results_{hash_of_evaluation(settings)}.csv") in printed
    assert numbers(plain_copy / "results.csv").equals(numbers(plain.path / "results.csv"))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (changed("trainer.max_epochs", 3), "trainer.max_epochs was 1, now 3"),
        (changed("data.init_args.batch_size", 4), "data.init_args.batch_size was 8, now 4"),
        (changed("trainer.callbacks", [STOPPING]), "trainer.callbacks.0.class_path was None, now 'lightning.pytorch"),
        (
            changed("trainer.callbacks", [METHODS | {"init_args": METHODS["init_args"] | {"during_fit": True}}]),
            "trainer.callbacks.0.class_path was None, now 'lightning_xai.callbacks.attributions.ComputeAttributions'",
        ),
    ],
    ids=["epochs", "batches", "unknown callback", "callback of the fit"],
)
def test_other_training_is_refused_and_named(plain_copy, tmp_path, change, key):
    before = {file: file.stat().st_mtime_ns for file in plain_copy.rglob("*")}
    config = configuration(tmp_path, changed("trainer.max_epochs", 1), change, callbacks=[METHODS])
    message = refusal("fit", "--config", config, "--runs_dir", plain_copy.parents[1], *SMALLER)
    assert key in message and "eval_batch_size" not in message
    assert {file: file.stat().st_mtime_ns for file in plain_copy.rglob("*")} == before


def test_training_whose_evaluation_failed_is_only_tested(tmp_path):
    failing = configuration(tmp_path, max_epochs=9, callbacks=[STOPPING, {"class_path": f"{MODULE}.FailsAfterTest"}])
    argv, run = ["--runs_dir", tmp_path / "runs"], tmp_path / "runs" / "tiny" / "seed0"
    with pytest.raises(ValueError, match="the evaluation failed"):
        command("fit", "--config", failing, *argv)
    assert torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["epoch"] == 1  # stopped before max_epochs
    trained = trained_at(run)
    with pytest.raises(ValueError, match="the evaluation failed"):
        command("fit", "--config", failing, *argv)
    RunFolder(run).write_manifest(trained=False)  # as after a kill between the last checkpoint and the end of the fit
    command("fit", "--config", configuration(tmp_path, max_epochs=9, callbacks=[METHODS, STOPPING]), *argv)
    assert trained_at(run) == trained and RunFolder(run).is_finished
    assert set(numbers(run / "results.csv")["split"]) == {"validation", "test"}


def state_of_best(run: Path) -> dict[str, str]:
    """Returns what last.ckpt knows about the best checkpoint, without the folder of the run."""
    callbacks = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["callbacks"]
    (state,) = [state for key, state in callbacks.items() if "val/log_loss" in key]
    return {name: str(value).replace(str(run.resolve()), "") for name, value in state.items()}


def test_unfinished_training_goes_on_with_another_evaluation(tmp_path):
    still = changed("model.init_args.optimizer.init_args.lr", 0.0)  # the first epoch stays the best one
    runs = {name: tmp_path / name / "tiny" / "seed0" for name in ("whole", "killed", "moved")}
    whole = configuration(tmp_path, still, callbacks=[])
    command("fit", "--config", whole, "--runs_dir", tmp_path / "whole")
    (tmp_path / "other").mkdir()
    killed = configuration(tmp_path / "other", still, callbacks=[METHODS, {"class_path": f"{MODULE}.FailsInLastEpoch"}])
    with pytest.raises(ValueError, match="killed"):
        command("fit", "--config", killed, "--runs_dir", tmp_path / "killed")
    shutil.copytree(tmp_path / "killed", tmp_path / "moved")
    for name in ("killed", "moved"):
        assert "resuming from last.ckpt" in command("fit", "--config", whole, "--runs_dir", tmp_path / name)
        torch.testing.assert_close(weights(runs[name]), weights(runs["whole"]), rtol=0, atol=0)
        assert state_of_best(runs[name]) == state_of_best(runs["whole"])
    assert state_of_best(runs["whole"])["current_score"] != "None"


def test_training_from_the_start_keeps_the_results_of_an_earlier_network_apart(plain, tmp_path):
    argv = ["--config", plain.config, "--runs_dir", tmp_path]
    run = tmp_path / "tiny" / "seed0"
    command("test", *argv, "--ckpt_path", "initial")
    (untrained,) = set(numbers(run / "results.csv")["checkpoint"])
    command("fit", *argv, "--test_after_fit", "false")
    assert tables(run) == {f"results_{untrained}.csv"}


def test_readers_do_not_take_an_earlier_evaluation_for_the_current_one(plain_copy):
    frame = pd.read_parquet(plain_copy / "results.parquet")
    frame.assign(value=0.0).to_parquet(plain_copy / "results_0a1b2c3d.parquet")
    current = RunFolder(plain_copy).results
    assert current is not None and current.equals(frame)
    (plain_copy / "results.parquet").unlink()
    assert not RunFolder(plain_copy).is_tested and RunFolder(plain_copy).results is None
