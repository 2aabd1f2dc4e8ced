"""Which runs an experiment's folder holds."""

import pytest

from lightning_xai.runs.experiment import free_report_dir, other_data_notes, record_compared, runs_of
from lightning_xai.runs.folder import RunFolder


def test_runs_of_an_experiment_are_the_folders_of_its_seeds(tmp_path):
    for name in ("seed1", "seed0", "report"):
        (tmp_path / name).mkdir()
    (tmp_path / "seed.txt").touch()
    assert [run.path.name for run in runs_of(tmp_path)] == ["seed0", "seed1"]


def test_a_report_replaces_only_a_report_on_the_same_experiments(tmp_path):
    report, (a, b, c) = tmp_path / "report", (tmp_path / name for name in "abc")
    for number, compared in enumerate([[a, b], [a, c], [b, a]]):
        place = free_report_dir(report, compared)
        assert place.name == ("report", "report_2", "report_3")[number]
        record_compared(place, compared)
    moved = tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}_moved"))
    assert free_report_dir(moved / "report", [moved / "a", moved / "c"]).name == "report_2"


SOURCE = "data.init_args.source"
VADER = {
    f"{SOURCE}.class_path": "lightning_xai.data.sources.vader.Vader",
    f"{SOURCE}.init_args.domain": "movie",
    "data.init_args.max_examples.test": 40,
}


@pytest.mark.parametrize(
    ("settings", "differs"),
    [
        ({f"{SOURCE}.init_args.domain": "amazon"}, True),
        ({f"{SOURCE}.class_path": "lightning_xai.data.sources.files.Files"}, True),
        ({"data.init_args.max_examples.test": 10}, True),
        ({f"{SOURCE}.init_args.threshold": 2.0}, True),
        ({"data.init_args.stratify": True}, True),
        ({f"{SOURCE}.init_args.cache_dir": "/cache"}, False),
        ({f"{SOURCE}.init_args.threshold": 1.0}, False),  # an option that is new, with its default
        ({"data.init_args.batch_size": 4, "data.init_args.max_examples.train": 9}, False),
    ],
)
def test_experiments_that_may_have_been_tested_on_other_examples_are_named(tmp_path, settings, differs):
    RunFolder(tmp_path / "a" / "seed0").write_manifest(settings=VADER)
    RunFolder(tmp_path / "b" / "seed3").write_manifest(settings=VADER | settings)
    old = tmp_path / "old" / "seed0" / "manifest.json"
    old.parent.mkdir(parents=True)
    old.write_text('{"format": 1, "settings": {}}')
    notes = other_data_notes({"A": tmp_path / "a", "old": old.parents[1], "B": tmp_path / "b", "none": tmp_path})
    assert notes == (
        ["B and A may have been tested on other examples: the settings of their data differ"] if differs else []
    )
