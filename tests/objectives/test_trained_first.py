"""A network that an objective loads, or that a run of its own trains first."""

from pathlib import Path

import pytest
from lightning import Trainer

from lightning_xai.objectives.trained_first import TrainedFirst
from lightning_xai.runs.folder import RunFolder


@pytest.fixture
def trainer(tmp_path) -> Trainer:
    folder = tmp_path / "runs" / "tm" / "seed3"
    return Trainer(default_root_dir=folder, logger=False, accelerator="cpu", enable_checkpointing=False)


def test_a_checkpoint_is_loaded_from_its_path_and_asks_for_no_run(trainer, tmp_path):
    file = tmp_path / "teacher.ckpt"
    file.touch()
    first = TrainedFirst(str(file), "teacher")
    assert not first.is_trained_here and first.runs_before(trainer) == []
    assert first.location(trainer) == file and first.trained_path(None) == str(file)


def test_a_configuration_asks_for_a_run_beside_the_experiment_with_the_same_seed(trainer, tmp_path):
    first = TrainedFirst("tm_teacher.yaml", "teacher")
    assert first.is_trained_here and first.location(trainer) == tmp_path / "runs" / "tm_teacher" / "seed3"
    place = [f"--runs_dir={tmp_path / 'runs'}", "--experiment=tm_teacher"]
    assert first.runs_before(trainer) == ["--config", "tm_teacher.yaml", *place]
    with pytest.raises(
        ValueError, match="`teacher` needs the run .*tm_teacher/seed3, which is not finished: use run.py fit"
    ):
        first.trained_path(trainer)


def test_a_finished_run_is_used_and_one_without_a_best_checkpoint_is_trained(trainer):
    first = TrainedFirst("tm_teacher.yaml", "teacher")
    run = RunFolder(Path(first.location(trainer)))
    run.write_manifest(status="finished")
    assert first.runs_before(trainer)
    (run.path / "checkpoints").mkdir()
    (run.path / "checkpoints" / "best.ckpt").touch()
    assert first.runs_before(trainer) == [] and first.trained_path(trainer) == str(run.path)


def test_a_path_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="teacher nowhere.ckpt does not exist: give a checkpoint, a run folder"):
        TrainedFirst("nowhere.ckpt", "teacher")
