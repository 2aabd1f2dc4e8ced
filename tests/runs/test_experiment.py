"""Which runs an experiment's folder holds."""

import pytest

from lightning_xai.runs.experiment import other_data_notes, runs_of
from lightning_xai.runs.folder import RunFolder


def test_runs_of_an_experiment_are_the_folders_of_its_seeds(tmp_path):
    for name in ("seed1", "seed0", "report"):
        (tmp_path / name).mkdir()
    (tmp_path / "seed.txt").touch()
    assert [run.path.name for run in runs_of(tmp_path)] == ["seed0", "seed1"]


SOURCE = "data.init_args.source"
VADER = {f"{SOURCE}.class_path": "Vader", f"{SOURCE}.init_args.domain": "movie", f"{SOURCE}.init_args.seed": 0}


@pytest.mark.parametrize(
    ("settings", "classes", "differing"),
    [
        ({f"{SOURCE}.init_args.domain": "amazon"}, ["no", "yes"], f"{SOURCE}.init_args.domain"),
        ({f"{SOURCE}.class_path": "Files"}, ["no", "yes"], f"{SOURCE}.class_path"),
        ({}, ["bad", "good"], "classes"),
        ({f"{SOURCE}.init_args.cache_dir": "/cache"}, ["no", "yes"], None),
        ({"data.init_args.batch_size": 4, f"{SOURCE}.init_args.num_train": 9}, ["no", "yes"], None),
    ],
)
def test_experiments_on_other_data_than_the_first_are_named(tmp_path, settings, classes, differing):
    RunFolder(tmp_path / "a" / "seed0").write_manifest(settings=VADER, class_names=["no", "yes"])
    RunFolder(tmp_path / "b" / "seed3").write_manifest(settings=VADER | settings, class_names=classes)
    notes = other_data_notes({"A": tmp_path / "a", "B": tmp_path / "b", "authors": tmp_path / "none"})
    expected = f"B and A have different data ({differing}): their numbers do not compare"
    assert notes == ([] if differing is None else [expected])
