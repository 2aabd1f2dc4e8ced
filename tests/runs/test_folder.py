from pathlib import Path

import pytest

from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.settings import run_settings


def test_folder_is_new_until_something_is_known(tmp_path):
    assert RunFolder(tmp_path / "none").manifest == {"status": "new"}


def test_manifest_keeps_facts_and_leaves_no_partial_file(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.write_manifest(status="running", settings={"a": 1})
    run.write_manifest(status="finished")
    assert run.is_finished and run.manifest["settings"] == {"a": 1}
    assert [file.name for file in run.path.iterdir()] == ["manifest.json"]


def checkpointed(folder: Path) -> RunFolder:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.ckpt").touch()
    return RunFolder(folder)


def test_claim_by_the_same_settings_goes_on(tmp_path):
    run = checkpointed(tmp_path)
    run.begin({"lr": 1})
    run.begin({"lr": 1})
    assert run.manifest["status"] == "running"


def test_claim_by_other_settings_names_the_difference(tmp_path):
    run = checkpointed(tmp_path)
    run.begin({"lr": 1, "same": 0})
    with pytest.raises(ValueError, match="lr was 1, now 2.*--experiment"):
        run.begin({"lr": 2, "same": 0})


def test_run_that_never_reached_a_checkpoint_blocks_nobody(tmp_path):
    run = RunFolder(tmp_path)
    run.begin({"lr": 1})
    run.begin({"lr": 2})
    assert run.manifest["settings"] == {"lr": 2}


def test_settings_compare_what_numbers_depend_on():
    config = {
        "runs_dir": "a", "config": ["x"], "trainer": {"max_epochs": 2, "enable_progress_bar": False},
        "data": {"sizes": [1, 2], "path": Path("p")},
    }  # fmt: skip
    assert run_settings(config) == {"trainer.max_epochs": 2, "data.sizes.0": 1, "data.sizes.1": 2, "data.path": "p"}


def test_erasures_among_the_runs_are_compared_by_their_place_there():
    found = [
        run_settings({"runs_dir": runs, "data": {"init_args": {"erasures": f"{runs}/roar/seed0/erasures/a"}}})
        for runs in ("runs", "/moved/runs")
    ]
    assert found[0] == found[1]
    assert found[0]["data.init_args.erasures"] == "roar/seed0/erasures/a"
