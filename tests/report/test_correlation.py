"""Correlations over runs and their intervals, against values worked out by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from lightning_xai.report.comparison.tables_and_pictures import paired_runs
from lightning_xai.report.correlation import correlation


def test_interval_is_that_of_fishers_transformation():
    generator = np.random.default_rng(0)
    x = generator.normal(size=12)
    y = x + generator.normal(size=12)
    found = correlation(x.tolist(), y.tolist())
    centered = (x - x.mean()) @ (y - y.mean()) / (12 * x.std() * y.std())
    z, reach = 0.5 * math.log((1 + centered) / (1 - centered)), 1.959964 / 3
    assert found.value == pytest.approx(centered)
    ends = [(math.exp(2 * e) - 1) / (math.exp(2 * e) + 1) for e in (z - reach, z + reach)]
    assert [found.low, found.high] == pytest.approx(ends, abs=1e-6)


@pytest.mark.slow
def test_interval_holds_the_true_correlation_in_95_percent_of_samples():
    generator = np.random.default_rng(1)
    inside = 0
    for _ in range(2000):
        x = generator.normal(size=10)
        y = 0.6 * x + 0.8 * generator.normal(size=10)
        found = correlation(x.tolist(), y.tolist())
        inside += found.low < 0.6 < found.high
    assert inside / 2000 == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("x", [[], [1.0], [1.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
def test_without_spread_or_three_runs_there_is_no_correlation(x):
    assert math.isnan(correlation(x, list(range(len(x)))).value)


def test_a_missing_correlation_says_why():
    assert str(correlation([1.0], [2.0])) == "no correlation over 1 run: at least 3 are needed"
    assert str(correlation([1.0, 2.0], [2.0, 3.0])) == "no correlation over 2 runs: at least 3 are needed"
    assert "the same value in all 3 runs" in str(correlation([1.0, 1.0, 1.0], [2.0, 3.0, 4.0]))


def test_three_runs_have_a_correlation_and_no_interval():
    found = correlation([0.0, 1.0, 2.0], [0.0, 2.0, 1.0])
    assert found.value == pytest.approx(0.5) and math.isnan(found.low)


def test_perfect_correlation_has_no_width():
    assert correlation([0.0, 1.0, 2.0, 3.0], [3.0, 2.0, 1.0, 0.0])[:3] == (-1.0, -1.0, -1.0)


def test_runs_without_one_of_both_quantities_are_left_out():
    rows = pd.DataFrame(
        [("a", 0, "f1", 0.5), ("a", 0, "auroc", 0.6), ("a", 1, "f1", 0.7), ("b", 0, "auroc", 0.8)],
        columns=["experiment", "seed", "quantity", "value"],
    )
    assert paired_runs(rows, "auroc", "f1").to_numpy().tolist() == [["a", 0, 0.6, 0.5]]
    assert len(paired_runs(rows, "none", "f1")) == 0
