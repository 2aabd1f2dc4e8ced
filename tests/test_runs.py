import json
from pathlib import Path

import pytest

from lightning_xai.runs import RunFolder, comparable, experiment_name, find_config, folder_of_config, with_config_paths


def test_folder_is_new_until_something_is_known(tmp_path):
    assert RunFolder(tmp_path / "none").manifest == {"status": "new"}


def test_manifest_keeps_facts_and_leaves_no_partial_file(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.write_manifest(status="running", settings={"a": 1})
    run.write_manifest(status="finished")
    assert run.finished and run.manifest["settings"] == {"a": 1}
    assert [file.name for file in run.path.iterdir()] == ["manifest.json"]


def checkpointed(folder: Path) -> RunFolder:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.ckpt").touch()
    return RunFolder(folder)


def test_claim_by_the_same_settings_goes_on(tmp_path):
    run = checkpointed(tmp_path)
    run.claim({"lr": 1})
    run.claim({"lr": 1})
    assert run.manifest["status"] == "running"


def test_claim_by_other_settings_names_the_difference(tmp_path):
    run = checkpointed(tmp_path)
    run.claim({"lr": 1, "same": 0})
    with pytest.raises(ValueError, match="lr was 1, now 2.*--experiment"):
        run.claim({"lr": 2, "same": 0})


def test_run_that_never_reached_a_checkpoint_blocks_nobody(tmp_path):
    run = RunFolder(tmp_path)
    run.claim({"lr": 1})
    run.claim({"lr": 2})
    assert run.manifest["settings"] == {"lr": 2}


def test_settings_compare_what_numbers_depend_on():
    config = {
        "runs_dir": "a", "config": ["x"], "trainer": {"max_epochs": 2, "enable_progress_bar": False},
        "data": {"sizes": [1, 2], "path": Path("p")},
    }  # fmt: skip
    assert comparable(config) == {"trainer.max_epochs": 2, "data.sizes.0": 1, "data.sizes.1": 2, "data.path": "p"}


def test_erasures_among_the_runs_are_compared_by_their_place_there():
    found = [
        comparable({"runs_dir": runs, "data": {"init_args": {"erasures": f"{runs}/roar/seed0/erasures/a"}}})
        for runs in ("runs", "/moved/runs")
    ]
    assert found[0] == found[1]
    assert found[0]["data.init_args.erasures"] == "roar/seed0/erasures/a"


def test_configuration_is_found_as_given_beside_others_or_among_those_shipped(tmp_path):
    (tmp_path / "beside.yaml").touch()
    assert find_config(str(tmp_path / "beside.yaml")) == str(tmp_path / "beside.yaml")
    assert find_config("beside.yaml", [tmp_path]) == str(tmp_path / "beside.yaml")
    assert find_config("tm.yaml").endswith("configs/tm.yaml")


@pytest.mark.parametrize("option", [["--config", "b.yaml"], ["-c", "b.yaml"], ["--config=b.yaml"]])
def test_later_configuration_is_looked_for_beside_the_earlier(tmp_path, option):
    for name in "ab":
        (tmp_path / f"{name}.yaml").touch()
    found = with_config_paths(["fit", "--config", str(tmp_path / "a.yaml"), *option])
    assert found[-1] == str(tmp_path / "b.yaml") and found[-2] in ("-c", "--config")


def test_experiment_is_what_a_file_sets_or_the_first_file_s_name(tmp_path):
    (tmp_path / "a.yaml").write_text("x: 1")
    (tmp_path / "b.yaml").write_text("experiment: chosen")
    assert experiment_name([str(tmp_path / "a.yaml")]) == "a"
    assert experiment_name([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]) == "chosen"
    assert experiment_name([]) == "default"


def test_saved_configuration_leads_to_its_own_folder(tmp_path):
    folder = tmp_path / "moved" / "name" / "seed0"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"status": "finished", "settings": {}}))
    file = str(folder / "config.yaml")
    assert folder_of_config([file], RunFolder(Path("runs/name/seed0"))).path == folder
    other = RunFolder(Path("runs/other/seed0"))
    assert folder_of_config([file], other) == other
