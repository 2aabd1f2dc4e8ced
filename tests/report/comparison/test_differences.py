"""Differences between means, with Welch's intervals."""

import math

import numpy as np
import pandas as pd
import pytest

from lightning_xai.report.comparison.differences import differences_frame, differs, paired_interval, welch_interval
from lightning_xai.report.comparison.experiments import means_table

KEYS = {"split": "test", "preset": "", "method": "", "metric": "f1"}


def rows(**experiments: list[float]) -> pd.DataFrame:
    cells = [(name, seed, value) for name, values in experiments.items() for seed, value in enumerate(values)]
    return pd.DataFrame([{"experiment": name, "seed": seed, **KEYS, "value": value} for name, seed, value in cells])


def test_intervals_by_hand():
    low, high = welch_interval([1.0, 2.0, 3.0], [5.0, 6.0, 7.0])  # variance 1 twice: 4 degrees of freedom
    half = 2.776445 * math.sqrt(2 / 3)  # Student's t
    assert (low, high) == pytest.approx((-4 - half, -4 + half), abs=1e-6)

    first, second = [1.0, 2.0, 3.0, 4.0], [0.0, 6.0, 0.0]
    a, b = np.var(first, ddof=1) / 4, np.var(second, ddof=1) / 3
    assert 2 < (a + b) ** 2 / (a**2 / 3 + b**2 / 2) < 3  # degrees of freedom
    low, high = welch_interval(first, second)
    assert (low + high) / 2 == pytest.approx(0.5)
    assert 3.182 < (high - low) / 2 / math.sqrt(a + b) < 4.303  # Student's t for 3 and 2 degrees


def test_interval_holds_the_true_difference_in_95_of_100_cases():
    random = np.random.default_rng(0)
    hits = 0
    for _ in range(1000):
        low, high = welch_interval(random.normal(5, 1, 5).tolist(), random.normal(3, 2, 4).tolist())
        hits += low < 2 < high
    assert 0.93 < hits / 1000 < 0.975


@pytest.mark.parametrize(("values", "reference"), [([0.5], [0.1, 0.2]), ([0.5, 0.6], []), ([0.5, 0.5], [0.4, 0.4])])
def test_no_interval_without_variation(values, reference):
    assert all(map(math.isnan, welch_interval(values, reference))) and not differs(values, reference)


def test_one_side_without_variation_has_an_interval():
    low, high = welch_interval([0.5, 0.5, 0.5], [0.4, 0.6])
    half = 12.7062 * 0.1  # Student's t for 1 degree of freedom; the standard error is sqrt(0.02 / 2)
    assert (low, high) == pytest.approx((-half, half), abs=1e-5)


def test_means_that_differ_from_the_first_experiment_have_a_star():
    table = rows(base=[0.70, 0.74, 0.72], better=[0.80, 0.84, 0.82], same=[0.70, 0.80, 0.75], one=[0.9])
    lines = means_table(table, ["base", "better", "same", "one"], "split", title="f1").splitlines()[2:]
    assert [line.split()[1] for line in lines] == ["72.0", "*82.0", "75.0", "90.0"]


def test_frame_compares_what_both_experiments_have():
    table = rows(base=[0.70, 0.74], tm=[0.80, 0.84], igr=[0.6])
    table = pd.concat([table, rows(tm=[0.1]).assign(metric="auroc")], ignore_index=True)
    frame = differences_frame(table, ["base", "tm", "igr"]).set_index("experiment")
    assert list(frame.index) == ["tm", "igr"]
    assert frame["difference"].tolist() == pytest.approx([0.10, -0.12])
    assert frame["num_seeds"].tolist() == [2, 1] and frame["low"].isna().tolist() == [False, True]


def test_frame_pairs_runs_with_the_same_seed():
    table = rows(base=[0.70, 0.80, 0.90, 0.10], tm=[0.72, 0.83, 0.91])
    (row,) = differences_frame(table, ["base", "tm"]).to_dict("records")
    half = 4.302653 * 0.01 / math.sqrt(3)  # Student's t for 2 degrees of freedom
    assert (row["num_pairs"], row["num_reference_seeds"]) == (3, 4)
    assert (row["paired_low"], row["paired_high"]) == pytest.approx((0.02 - half, 0.02 + half), abs=1e-7)
    assert row["paired_difference"] == pytest.approx(0.02) and row["high"] > 0.5 > row["paired_high"]
    assert all(map(math.isnan, paired_interval([0.1]) + paired_interval([0.1, 0.1])))
