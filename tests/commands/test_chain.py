"""A student whose teacher is trained first. After a kill at any moment the same command ends with the same numbers."""

import json
import multiprocessing
import re
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch

from lightning_xai.commands.main import main
from tests.commands.conftest import ERASER, PLM_CA, PRELOADED, command, numbers, planted, refusal, save, tiny_config
from tests.runs.processes import WAIT_SECONDS


def chain_config(folder: Path) -> str:
    """Writes a student's configuration and its teacher's beside it, and returns the student's path."""
    optimizer = {"class_path": "torch.optim.AdamW", "init_args": {"lr": 2e-3}}
    teacher = {
        "model": {
            "class_path": "lightning_xai.objectives.supervised.Supervised",
            "init_args": {"optimizer": optimizer, "warmup_fraction": 0.3},
        },
        "trainer": {"max_epochs": 10, "callbacks": []},
    }
    methods = {
        "class_path": "lightning_xai.callbacks.attributions.ComputeAttributions",
        "init_args": {"methods": {"random": {"class_path": "lightning_xai.attributions.random.Random"}}},
    }
    data = planted(num_classes=3, multilabel=True, signals_per_document=[1, 1], num_train=24, num_validation=8)
    student = tiny_config(max_epochs=6, callbacks=[methods, ERASER]) | {"data": data}
    student["model"] = {
        "class_path": "lightning_xai.objectives.token_masking.TokenMasking",
        "init_args": {"network": PLM_CA, "teacher": "teacher.yaml", "optimizer": optimizer, "search": {"num_steps": 8}},
    }
    save(teacher, folder / "teacher.yaml")
    return save(student, folder / "student.yaml")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The folder of the experiments of a chain that nothing interrupted; their names have two parts."""
    folder = tmp_path_factory.mktemp("whole")
    named = ["--runs_dir", folder, "--experiment", "runs/student"]
    printed = command("fit", "--config", chain_config(folder), *named)
    (folder / "printed.txt").write_text(printed)
    return folder / "runs"


def status(run: Path) -> str:
    file = run / "manifest.json"
    return json.loads(file.read_text())["status"] if file.exists() else "new"


def kill_when(happened: Callable[[], bool], argv: list[str]) -> None:
    """Starts a command in a process of its own and kills it as soon as something has happened."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=main, args=(argv,))
    process.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while not happened() and time.monotonic() < deadline:
        assert process.is_alive()
        time.sleep(0.002)
    process.kill()
    process.join()
    assert process.exitcode == -9


@pytest.mark.slow
def test_each_stage_is_a_run_of_its_own(whole):
    assert sorted(path.name for path in whole.iterdir()) == ["student", "student_teacher"]
    assert {status(path / "seed0") for path in whole.iterdir()} == {"finished"}
    assert (whole / "student_teacher" / "seed0" / "results.csv").is_file()


@pytest.mark.slow
def test_the_summary_comes_first_then_the_time_and_the_next_step_last(whole):
    lines = (whole.parent / "printed.txt").read_text().splitlines()
    forecast = next(line for line in lines if "method explains" in line)
    assert re.fullmatch("the test: 1 method explains 8 validation and 7 test examples, (under|about) .*min", forecast)
    runs = ("student/seed0: TokenMasking", "student_teacher/seed0: ")
    summaries = [next(i for i, line in enumerate(lines) if run in line) for run in runs]
    needed = lines.index(f"{whole}/student/seed0 needs the run student_teacher, which comes first")
    assert summaries[0] < lines.index(forecast) < needed < summaries[1]
    assert lines[-1] == f'next: python run.py explain --ckpt {whole}/student/seed0 --text "A TEXT OF YOURS"'


@pytest.mark.slow
def test_student_says_which_teacher_it_had(whole):
    checkpoint = torch.load(whole / "student" / "seed0" / "checkpoints" / "best.ckpt", weights_only=True)
    teacher = pd.read_parquet(whole / "student_teacher" / "seed0" / "results.parquet")
    assert checkpoint["teacher"]["teacher_hash"] == teacher["checkpoint"].iloc[0]


@pytest.mark.slow
def test_chain_killed_in_and_between_its_stages_ends_with_the_same_numbers(whole, tmp_path):
    argv = ["fit", "--config", chain_config(tmp_path), "--runs_dir", str(tmp_path / "runs")]
    student, teacher = (tmp_path / "runs" / name / "seed0" for name in ("student", "student_teacher"))

    kill_when((teacher / "checkpoints" / "last.ckpt").exists, argv)
    assert status(teacher) == "running" and not (student / "checkpoints").exists()
    reached = torch.load(teacher / "checkpoints" / "last.ckpt", weights_only=True)["epoch"]
    assert reached < 9

    kill_when(lambda: status(teacher) == "finished", argv)
    assert not (student / "checkpoints").exists()

    kill_when((student / "checkpoints" / "last.ckpt").exists, argv)
    assert status(student) == "running"
    assert torch.load(student / "checkpoints" / "last.ckpt", weights_only=True)["epoch"] < 5

    trained = (teacher / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    assert "resuming from last.ckpt" in command(*argv)
    assert (teacher / "checkpoints" / "last.ckpt").stat().st_mtime_ns == trained
    for run in ("student", "student_teacher"):
        found, wanted = (numbers(runs / run / "seed0" / "results.csv") for runs in (tmp_path / "runs", whole))
        other = ["checkpoint", "experiment"]  # a checkpoint also holds times and paths
        pd.testing.assert_frame_equal(found.drop(columns=other), wanted.drop(columns=other), check_exact=True)


@pytest.mark.slow
def test_best_checkpoint_and_decision_threshold_survive_a_kill(whole):
    last, best = (
        torch.load(whole / "student" / "seed0" / "checkpoints" / f"{name}.ckpt", weights_only=True)
        for name in ("last", "best")
    )
    assert last["epoch"] == 5
    assert 0 <= best["epoch"] <= 5
    assert 0 < float(best["state_dict"]["decision_threshold"]) < 1


@pytest.mark.slow
def test_finished_chain_prints_its_table_and_trains_nothing(whole, tmp_path):
    config = chain_config(tmp_path)
    printed = command("fit", "--config", config, "--runs_dir", whole)
    assert "finished already" in printed and "Supervised" not in printed


@pytest.mark.slow
def test_chain_under_fast_dev_run_leaves_nothing_behind(tmp_path):
    config = chain_config(tmp_path)
    printed = command("fit", "--config", config, "--runs_dir", tmp_path / "runs", "--trainer.fast_dev_run", "true")
    assert "which fast_dev_run does not write" in printed
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_missing_configuration_of_the_teacher_is_named(tmp_path):
    config = chain_config(tmp_path)
    (tmp_path / "teacher.yaml").unlink()
    assert "'teacher.yaml'" in refusal("fit", "--config", config, "--runs_dir", tmp_path / "runs")
