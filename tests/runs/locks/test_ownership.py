"""What a fit and a test own of a run's folder."""

import pytest

from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.locks.lock import release, take
from lightning_xai.runs.locks.ownership import own_results, own_run, own_scores
from tests.runs.processes import owner_of


@pytest.fixture
def run(tmp_path):
    yield RunFolder(tmp_path / "tm" / "seed0")
    release()


def test_fit_removes_what_killed_processes_have_left(run):
    run.checkpoints_dir.mkdir(parents=True)
    left = [run.path / "manifest.json.node2.7.partial", run.path / "owner.lock.0a1b.stale"]
    left += [run.checkpoints_dir / "last.ckpt.node2.7.partial"]
    for file in [*left, run.checkpoints_dir / "last.ckpt"]:
        file.touch()
    own_run(run)
    assert {file.name for file in run.path.rglob("*")} == {"owner.lock", "checkpoints", "last.ckpt"}


def test_fit_owns_everything_in_its_folder(run):
    own_run(run)
    own_results(run, run.results_file)
    own_scores(run.attributions_dir, run)
    assert [file.name for file in run.path.rglob("*")] == ["owner.lock"]


def test_tests_with_other_results_files_go_side_by_side(run):
    with owner_of(run.path / "results.parquet.lock"):
        own_results(run, run.path / "results_0a1b.parquet")
        with pytest.raises(ValueError, match="results.parquet belongs to process .*--experiment"):
            own_results(run, run.results_file)


@pytest.mark.parametrize("lock", ["results_0a1b.parquet.lock", "attributions/owner.lock"])
def test_fit_waits_for_no_test_and_disturbs_none(run, lock):
    with owner_of(run.path / lock), pytest.raises(ValueError, match="belongs to process"):
        own_run(run)
    own_run(run)  # that test was killed


def test_scores_outside_the_run_are_owned_by_one_command(run, tmp_path):
    with owner_of(run.lock_file), owner_of(tmp_path / "cache" / "owner.lock"):
        with pytest.raises(ValueError, match="cache belongs to process .*set another cache_dir"):
            own_scores(tmp_path / "cache", run)
        own_scores(tmp_path / "other", run)


def test_test_in_the_folder_of_a_running_fit_is_refused(run):
    with owner_of(run.lock_file), pytest.raises(ValueError, match="seed0 belongs to process"):
        own_results(run, run.results_file)


def test_root_of_a_chain_and_its_stages_have_locks_of_their_own(run):
    take(run.stage("gradient/030").lock_file)
    with owner_of(run.lock_file), owner_of(run.stage("gradient/020").lock_file):
        own_run(run.stage("gradient/040"))
