"""Where a run's files lie, what its manifest keeps, and which runs its folder refuses."""

import json
from pathlib import Path

import pytest

from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.run_state import begin_run, finish_run


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
    begin_run(run, {"lr": 1})
    begin_run(run, {"lr": 1})
    assert run.manifest["status"] == "running"


def test_claim_by_other_settings_names_the_difference(tmp_path):
    run = checkpointed(tmp_path)
    begin_run(run, {"lr": 1, "same": 0})
    with pytest.raises(ValueError, match="lr was 1, now 2.*--experiment"):
        begin_run(run, {"lr": 2, "same": 0})


def test_run_that_never_reached_a_checkpoint_blocks_nobody(tmp_path):
    run = RunFolder(tmp_path)
    begin_run(run, {"lr": 1})
    begin_run(run, {"lr": 2})
    assert run.manifest["settings"] == {"lr": 2}


CHAIN = {"trainer.callbacks.0.class_path": "lightning_xai.chains.fresh.FRESH"}
RATIO = "trainer.callbacks.0.init_args.ratio"


def test_chain_may_be_added_and_changed_until_it_has_chosen_tokens(tmp_path):
    run = RunFolder(tmp_path)
    begin_run(run, {"lr": 1})
    finish_run(run, seconds=1)
    for settings in ({**CHAIN, RATIO: 0.2}, {**CHAIN, RATIO: 0.5}, {}, {**CHAIN, RATIO: 0.3}):
        begin_run(run, {"lr": 1} | settings)
        assert run.settings == {"lr": 1} | settings
        assert run.is_finished and run.is_trained  # even without last.ckpt
    run.erasures_dir.mkdir()
    begin_run(run, {"lr": 1, **CHAIN, RATIO: 0.3})
    for settings, message in (({**CHAIN, RATIO: 0.2}, f"{RATIO} was 0.3, now 0.2"), ({}, "FRESH', now None")):
        with pytest.raises(ValueError, match=message):
            begin_run(run, {"lr": 1} | settings)


def test_chain_of_a_stage_may_not_change(tmp_path):
    run, stage = checkpointed(tmp_path), {"data.init_args.erasures": "roar/seed0/erasures/gradient"}
    begin_run(run, stage | {**CHAIN, RATIO: 0.3})
    with pytest.raises(ValueError, match="ratio was 0.3, now 0.2"):
        begin_run(run, stage | {**CHAIN, RATIO: 0.2})


def write_manifest(run: RunFolder, **facts) -> RunFolder:
    """Writes a manifest by hand, without the number of a format."""
    run.path.mkdir(parents=True, exist_ok=True)
    run.manifest_file.write_text(json.dumps(facts))
    return run


OLD = "has format 1, but this version reads format 2: choose another --experiment"


@pytest.mark.parametrize("facts", [{"status": "finished"}, {"status": "finished", "format": 1}])
def test_finished_run_of_an_older_format_is_refused(tmp_path, facts):
    run = write_manifest(RunFolder(tmp_path), **facts)
    for refuse in (run.check_format, lambda: begin_run(run, {"lr": 1}), lambda: run.is_finished):
        with pytest.raises(ValueError, match=OLD):
            refuse()


def test_killed_run_of_an_older_format_is_refused(tmp_path):
    run = write_manifest(checkpointed(tmp_path), status="running", settings={"lr": 1})
    with pytest.raises(ValueError, match=OLD):
        begin_run(run, {"lr": 1})


def test_run_of_an_older_format_that_never_reached_a_checkpoint_blocks_nobody(tmp_path):
    run = write_manifest(RunFolder(tmp_path), status="running", settings={"lr": 1})
    run.check_format()
    begin_run(run, {"lr": 2})
    assert run.manifest == {"status": "running", "settings": {"lr": 2}}


def test_best_checkpoint_is_the_last_one_where_no_best_one_is(tmp_path):
    run = checkpointed(tmp_path)
    assert run.best_checkpoint == run.checkpoints_dir / "last.ckpt"
    (run.checkpoints_dir / "best.ckpt").touch()
    assert run.best_checkpoint == run.checkpoints_dir / "best.ckpt"


def test_folder_of_all_runs_follows_from_the_name_of_the_experiment(tmp_path):
    nested = RunFolder(tmp_path / "runs" / "roar" / "gradient" / "010" / "seed0")
    begin_run(nested, {"experiment": "roar/gradient/010"})
    assert nested.runs_dir == tmp_path / "runs"
    assert RunFolder(tmp_path / "runs" / "tm" / "seed0").runs_dir == tmp_path / "runs"


def test_other_test_data_have_a_hash_but_the_own_ones_none(tmp_path):
    run = RunFolder(tmp_path)
    settings = {"data.init_args.max_examples.test": 7, "lr": 1}
    assert run.other_data(settings) == ""  # a run that has not begun has no own data
    begin_run(run, settings)
    assert run.other_data(settings | {"lr": 2}) == ""
    assert len(run.other_data({"data.init_args.max_examples.test": 8})) == 6


@pytest.mark.parametrize("experiment", ["tm", "roar/gradient/030", "a b"])
@pytest.mark.parametrize("runs_dir", ["runs", "/disk/runs", "."])
def test_folder_of_an_experiment_and_seed_is_taken_apart_again(runs_dir, experiment):
    run = RunFolder.of(runs_dir, experiment, seed=3)
    assert run.path == Path(runs_dir, experiment, "seed3")
    assert run.name == (Path(experiment).name, "seed3")
    assert run.sibling(Path(experiment).name) == run


@pytest.mark.parametrize("name", ["gradient", "gradient/030", ""])
def test_root_of_a_stage_is_found_from_the_stage(name):
    root = RunFolder(Path("runs/roar/seed0"))
    assert root.stage(name).root_of_stage(name) == root


@pytest.mark.parametrize("path", ["runs/roar/seed0", "runs/gradient/other/seed0", "030/seed0", "seed0"])
def test_folder_of_another_name_is_no_stage(path):
    assert RunFolder(Path(path)).root_of_stage("gradient/030") is None


def test_teacher_lies_beside_the_run():
    assert RunFolder(Path("runs/a/uniwise/seed1")).teacher.path == Path("runs/a/uniwise_teacher/seed1")


@pytest.mark.parametrize("runs_dir", ["-rf", "--runs", "-rf/x"])
def test_folder_of_all_runs_that_looks_like_an_option_is_refused(runs_dir):
    with pytest.raises(ValueError, match=f"runs_dir is '{runs_dir}': choose a name that does not begin with -"):
        RunFolder.of(runs_dir, "tm", seed=0)
