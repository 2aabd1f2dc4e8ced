"""Results of several experiments: which numbers count, and tables of their means."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from lightning_xai.report.comparison.experiments import means_table, missed_bounds, read_experiments
from lightning_xai.runs.folder import RunFolder
from tests.report.conftest import write_results

ACCURACY = ("test", "", "", "accuracy")


def finish(experiment: Path, met: Sequence[bool]) -> None:
    """Writes the manifests of finished runs without results; `met` says which of them met their bounds."""
    for seed, bound_met in enumerate(met):
        folder = experiment / f"seed{seed}"
        folder.mkdir(parents=True)
        facts = {"format": 2, "status": "finished", "bound_met": bound_met}
        (folder / "manifest.json").write_text(json.dumps(facts))


def test_tests_on_other_data_count_and_those_of_other_checkpoints_do_not(tmp_path):
    write_results(tmp_path / "tm", 0, {ACCURACY: 0.5})
    write_results(tmp_path / "tm", 0, {("imdb", "", "", "accuracy"): 0.25}, stem="results_12ab")
    write_results(tmp_path / "tm", 0, {("yelp", "", "", "accuracy"): 0.1}, stem="results_34cd", checkpoint="ffff")
    rows = read_experiments([tmp_path / "tm"])
    assert rows.set_index("split")["value"].to_dict() == {"test": 0.5, "imdb": 0.25}


def test_the_current_table_counts_before_newer_ones_and_a_newer_one_before_older_ones(tmp_path):
    write_results(tmp_path / "tm", 0, {ACCURACY: 0.5})
    imdb = ("imdb", "", "", "accuracy")
    for age, (stem, value) in enumerate({"results_new": 0.75, "results_old": 0.25}.items()):
        write_results(tmp_path / "tm", 0, {imdb: value, ACCURACY: value}, stem=stem)
        os.utime(tmp_path / "tm" / "seed0" / f"{stem}.parquet", (2e9 - age, 2e9 - age))
    rows = read_experiments([tmp_path / "tm"])
    assert rows.set_index("split")["value"].to_dict() == {"test": 0.5, "imdb": 0.75}


def test_values_without_a_number_are_left_out_and_seeds_keep_theirs(tmp_path):
    for seed, value in enumerate([0.5, float("nan"), 0.75]):
        write_results(tmp_path / "tm", seed, {ACCURACY: value})
    rows = read_experiments([tmp_path / "tm"])
    assert rows["seed"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ([], "no experiment is named"),
        (["none"], "none has no tested run"),
        (["tm", "tm"], "tm is named twice"),
        (["tm/seed0"], "tm/seed0 is a single run: give its experiment, .*tm$"),
    ],
)
def test_experiments_that_cannot_be_read_are_refused(folders, message, tmp_path):
    write_results(tmp_path / "tm", 0, {ACCURACY: 0.5})
    RunFolder(tmp_path / "tm" / "seed0").write_manifest(status="finished")
    with pytest.raises(ValueError, match=message):
        read_experiments([tmp_path / folder for folder in folders])


def test_experiments_whose_seeds_missed_their_bounds_are_named(tmp_path):
    finish(tmp_path / "rollout", [True, False, False])
    assert missed_bounds([tmp_path / "rollout"]) == ["rollout: 1 of 3 seeds met the bounds"]


def test_experiments_without_results_are_read_only_if_they_missed_their_bounds(tmp_path):
    write_results(tmp_path / "tm", 0, {ACCURACY: 0.5})
    finish(tmp_path / "rollout", [False, False])
    assert set(read_experiments([tmp_path / "tm", tmp_path / "rollout"])["experiment"]) == {"tm"}
    with pytest.raises(ValueError, match="no run has results .rollout: 0 of 2 seeds met the bounds.: .* looser bounds"):
        read_experiments([tmp_path / "rollout"])
    finish(tmp_path / "untested", [True])
    with pytest.raises(ValueError, match="untested has no tested run"):
        read_experiments([tmp_path / "tm", tmp_path / "untested"])


def test_table_has_means_and_deviations_over_seeds_and_marks_what_is_missing():
    rows = pd.DataFrame(
        [("a", 0, "x", 0.25), ("a", 1, "x", 0.75), ("b", 0, "y", 0.5)],
        columns=["experiment", "seed", "split", "value"],
    )
    lines = means_table(rows, ["a", "b", "c"], "split", title="f1").splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["a", "50.0", "(35.4)", "-"],
        ["b", "-", "50.0"],
        ["c", "-", "-"],
    ]
