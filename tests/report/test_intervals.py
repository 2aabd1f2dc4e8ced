"""Means over seeds and their intervals."""

import math

import pandas as pd
import pytest

from lightning_xai.report.intervals import percent_curve, with_intervals


def rows(**values: list[float]) -> pd.DataFrame:
    """Returns a row for each value, by method."""
    return pd.DataFrame([(method, value) for method in values for value in values[method]], columns=["method", "value"])


def test_combinations_keep_their_order():
    assert with_intervals(rows(b=[1.0], a=[2.0]), ["method"])["method"].tolist() == ["b", "a"]


def test_interval_is_that_of_the_values():  # oracle E7: [.1, .2, .3, .4, .5] -> [.18, .42]
    row = with_intervals(rows(a=[0.1, 0.2, 0.3, 0.4, 0.5]), ["method"]).iloc[0]
    assert [row["mean"], row["low"], row["high"]] == pytest.approx([0.3, 0.18, 0.42], abs=1e-9)


def test_one_seed_has_no_interval():
    row = with_intervals(rows(a=[0.5]), ["method"]).iloc[0]
    assert row["mean"] == 0.5 and math.isnan(row["low"]) and row["num_seeds"] == 1


def test_mean_of_an_undefined_value_is_undefined():
    assert math.isnan(with_intervals(rows(a=[0.5, math.nan]), ["method"])["mean"].item())


def test_curve_is_in_percent():
    points = pd.DataFrame({"x": [1, 2], "mean": [0.5, 0.25], "low": [0.25, 0.0], "high": [1.0, 0.5]})
    curve = percent_curve("a", points, "x", "control")
    assert (list(curve.mean), list(curve.low), list(curve.high)) == ([50, 25], [25, 0], [100, 50])
    assert (curve.name, list(curve.x), curve.role) == ("a", [1, 2], "control")
