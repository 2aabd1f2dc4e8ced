"""Which runs an experiment's folder holds."""

from lightning_xai.runs.experiment import runs_of


def test_runs_of_an_experiment_are_the_folders_of_its_seeds(tmp_path):
    for name in ("seed1", "seed0", "report"):
        (tmp_path / name).mkdir()
    (tmp_path / "seed.txt").touch()
    assert [run.path.name for run in runs_of(tmp_path)] == ["seed0", "seed1"]
