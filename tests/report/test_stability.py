"""Comparisons of runs: means over explanations, tables, and the runs that a pattern matches."""

import numpy as np
import pytest

from lightning_xai.report.stability import (
    RunComparison,
    matching_runs,
    run_comparison,
    stability_frame,
    stability_table,
)


def similarities(value: float, spearman: float) -> np.ndarray:
    """Returns the similarities [3, 2, 2] of two runs for one explanation."""
    return np.array([[[1, v], [v, 1]] for v in (value, spearman, spearman)])


def comparison(num_runs: int) -> RunComparison:
    values = np.full((3, num_runs, num_runs), 0.5)
    return run_comparison("ig", [values], num_runs)


def test_undefined_explanations_do_not_enter_a_mean():
    result = run_comparison("ig", [similarities(0.2, np.nan), similarities(0.4, -0.5)], 2)
    assert result.means["jaccard"][0, 1] == pytest.approx(0.3) and result.counts["jaccard"][0, 1] == 2
    assert result.means["spearman"][0, 1] == -0.5 and result.counts["spearman"][0, 1] == 1


def test_mean_of_nothing_is_undefined():
    assert np.isnan(run_comparison("ig", [], 2).means["jaccard"]).all()


def test_frame_says_how_many_explanations_a_number_leaves_out():
    frame = stability_frame([run_comparison("ig", [similarities(0.2, np.nan), similarities(0.4, -0.5)], 2)], ["a", "b"])
    assert frame[["metric", "run", "other", "num_explanations", "num_skipped"]].to_numpy().tolist() == [
        ["jaccard", "a", "b", 2, 0],
        ["spearman", "a", "b", 1, 1],
        ["kendall", "a", "b", 1, 1],
    ]


def test_table_has_jaccard_below_and_spearman_above_the_diagonal():
    table = stability_table(
        run_comparison("ig", [similarities(0.25, -0.5)], 2), ["a", "b"], split="test", percentage=25
    )
    assert table.splitlines() == [
        "stability of ig on test, 1 explanations",
        "below the diagonal: Jaccard of the top 25 %; above it: Spearman's correlation",
        "        1      2",
        "1 a     -  -0.50",
        "2 b  0.25      -",
    ]


@pytest.mark.parametrize("num_runs", [3, 9, 30])
def test_table_stays_within_the_width(num_runs):
    names = [f"an_experiment_of_a_long_name.seed{i}" for i in range(num_runs)]
    table = stability_table(comparison(num_runs), names, split="test", percentage=25)
    assert max(map(len, table.splitlines())) <= 80
    assert table.count("0.50") == num_runs * (num_runs - 1)


def test_other_runs_are_looked_for_among_the_runs_and_then_from_here(tmp_path, monkeypatch):
    tmp_path = tmp_path / "lab [1]"  # is no pattern
    for folder in ("runs/tm/seed0", "runs/tm/seed1", "else/where/seed0"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "results.parquet").touch()
    (tmp_path / "runs/tm/seed2").mkdir()  # not tested yet
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "runs"
    runs_found = matching_runs(["tm/seed*", "else/where/seed0"], runs / "tm" / "seed1", runs)
    assert [path.resolve() for path in runs_found] == [runs / "tm" / "seed0", tmp_path / "else" / "where" / "seed0"]
    with pytest.raises(ValueError, match="tm/seed7 does not exist: fit and test this run first"):
        matching_runs(["tm/seed7"], runs / "tm" / "seed1", runs)
