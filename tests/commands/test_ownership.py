"""One owner a run folder: who is refused, who goes side by side, and what a killed command leaves."""

import json
import os
from pathlib import Path

import pytest

from lightning_xai.runs.folder import RunFolder
from tests.commands.conftest import METHODS, command, refusal, save, tiny_config
from tests.runs.processes import owner_of

pytestmark = pytest.mark.slow

CACHE = {"class_path": "lightning_xai.callbacks.attribution_cache.AttributionCacheWriter"}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def short_config(folder: Path, *, lr: float = 5e-3, **trainer) -> str:
    config = tiny_config(**({"callbacks": [], "max_epochs": 1} | trainer))
    config["model"]["init_args"]["optimizer"]["init_args"]["lr"] = lr
    return save(config, folder / "tiny.yaml")


def test_second_fit_of_a_running_one_is_refused_and_touches_nothing(tmp_path):
    run = RunFolder(tmp_path / "runs" / "tiny" / "seed0")
    with owner_of(run.lock_file) as (process, _):
        before = files(tmp_path / "runs")
        for lr in (5e-3, 1e-3):
            argv = ["fit", "--config", short_config(tmp_path, lr=lr), "--runs_dir", tmp_path / "runs"]
            message = refusal(*argv)
            assert f"{run.path} belongs to process {process.pid} on " in message and "--experiment" in message
        assert files(tmp_path / "runs") == before
    assert "classification" in command(*argv)  # the first was killed
    assert not list(tmp_path.rglob("*.lock"))


def test_fit_of_a_folder_in_which_a_test_runs_is_refused(run_copy):
    argv = ["fit", "--config", run_copy / "config.yaml", "--runs_dir", run_copy.parents[1]]
    for lock in (run_copy / "results_0a1b.parquet.lock", run_copy / "attributions" / "owner.lock"):
        with owner_of(lock):
            assert "belongs to process" in refusal(*argv)
        lock.unlink()


def test_test_owns_its_results_file_and_its_scores_only(run_copy):
    run = RunFolder(run_copy)
    config = json.loads(json.dumps(tiny_config(callbacks=[METHODS, CACHE])))
    argv = ["test", "--config", run.config_file, "--trainer.callbacks", json.dumps(config["trainer"]["callbacks"])]
    with owner_of(run.path / "results_other.parquet.lock"):
        assert "written: " in command(*argv)
    with owner_of(run.path / "results.parquet.lock"):
        assert "results.parquet belongs to process" in refusal(*argv[:3])  # with the evaluation of the run
    with owner_of(run.attributions_dir / "owner.lock"):
        message = refusal(*argv)
        assert "attributions belongs to process" in message and "another cache_dir" in message
    with owner_of(run.lock_file):  # a fit
        assert f"{run.path} belongs to process" in refusal(*argv)
        assert "classification" in command("validate", *argv[1:3])  # readers own nothing
        assert "p = 0." in command("explain", "--ckpt", run.path, "--text", "w1 w2")


def test_cut_checkpoint_names_itself_and_the_remedy(run_copy):
    run = RunFolder(run_copy)
    last = run.checkpoints_dir / "last.ckpt"
    argv = ["fit", "--config", run.config_file, "--runs_dir", run_copy.parents[1]]
    run.results_file.unlink()
    run.write_manifest(status="running", trained=False)
    for size in (last.stat().st_size // 2, 0):
        os.truncate(last, size)
        message = refusal(*argv)
        assert f"last.ckpt is incomplete ({size:,} bytes)" in message and "remove it and run fit again" in message
    last.unlink()
    assert "classification" in command(*argv)


def test_checkpoint_writer_of_the_user_stays_and_is_named(tmp_path):
    plugins = [{"class_path": "lightning.pytorch.plugins.io.AsyncCheckpointIO"}]
    argv = ["fit", "--config", short_config(tmp_path, plugins=plugins), "--runs_dir", tmp_path / "runs"]
    assert "checkpoints are written by AsyncCheckpointIO" in command(*argv)
    assert len(list(tmp_path.rglob("*.ckpt"))) == 2
