"""RACU and its interval, against the authors' code and scipy."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap

from lightning_xai.metrics.racu import bca_interval, leakage, racu

TENTHS = [tenth / 10 for tenth in range(11)]


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    "fractions, random, method, expected",
    [
        ([0, 0.5, 1], [0.9, 0.8, 0.5], [0.9, 0.5, 0.5], 0.6),
        ([0, 0.2, 0.6, 1], [0.9, 0.8, 0.7, 0.5], [0.9, 0.85, 0.6, 0.5], 0.025 / 0.21),
        (TENTHS, [0.9] * 10 + [0.5], [0.9] + [0.5] * 10, 0.36 / 0.38),
    ],
)
def test_racu_equals_the_authors(fractions, random, method, expected):
    assert float(racu(tensor(random), tensor(method), tensor(fractions))) == pytest.approx(expected, abs=1e-12)


def test_random_erasures_have_a_racu_of_0():
    curve = tensor([0.9, 0.8, 0.5])
    assert float(racu(curve, curve, tensor([0, 0.5, 1]))) == 0


def test_curve_above_the_random_one_counts_against_a_method():
    assert float(racu(tensor([0.9, 0.7, 0.5]), tensor([0.9, 0.8, 0.5]), tensor([0, 0.5, 1]))) == pytest.approx(-0.25)


def test_racu_is_clipped_on_demand():
    curves = tensor([0.9, 0.51, 0.5]), tensor([0.9, 0.1, 0.5]), tensor([0, 0.5, 1])
    assert float(racu(*curves)) == 1
    assert float(racu(*curves, clipped=False)) == pytest.approx(0.205 / 0.105)


def test_seeds_are_measured_each_by_itself():
    random, method = tensor([[0.9, 0.8, 0.5], [0.9, 0.8, 0.7]]), tensor([[0.9, 0.5, 0.5], [0.9, 0.8, 0.7]])
    assert racu(random, method, tensor([0, 0.5, 1])).tolist() == pytest.approx([0.6, 0])


def test_racu_is_undefined_where_erasing_costs_nothing():
    assert racu(tensor([0.5, 0.5]), tensor([0.5, 0.5]), tensor([0, 1])).isnan()


def test_racu_is_undefined_where_random_erasures_help():
    assert racu(tensor([0.5, 0.6, 0.7]), tensor([0.5, 0.55, 0.7]), tensor([0, 0.5, 1])).isnan()


def test_fractions_that_miss_the_ends_are_refused():
    with pytest.raises(ValueError, match="ascending fractions from 0 to 1"):
        racu(tensor([0.9, 0.5]), tensor([0.9, 0.5]), tensor([0.1, 1]))


def test_leakage_is_the_share_that_positions_win_back():
    # 0.5 * 0.2 = 0.1 lies between the positions' curve and the last score, of an area of 0.25
    share = leakage(tensor([0.9, 0.8, 0.5]), tensor([0.5, 0.7, 0.5]), tensor([0, 0.5, 1]))
    assert float(share) == pytest.approx(0.4)


def test_positions_that_tell_nothing_leak_nothing():
    assert float(leakage(tensor([0.9, 0.8, 0.5]), tensor([0.5, 0.5, 0.5]), tensor([0, 0.5, 1]))) == 0


@pytest.mark.parametrize(
    "values, expected",
    [([0.1, 0.2, 0.3, 0.4, 0.5], (0.18, 0.42)), ([0.90, 0.91, 0.89, 0.92, 0.90], (0.896, 0.914))],
)
def test_interval_equals_the_numbers_of_scipy(values, expected):
    assert bca_interval(tensor(values)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("size, confidence", [(2, 0.95), (3, 0.9), (5, 0.95), (10, 0.8)])
def test_interval_equals_scipy_on_skewed_values(size, confidence):
    values = np.random.default_rng(size).exponential(size=size)
    result = bootstrap((values,), np.mean, method="BCa", confidence_level=confidence, rng=np.random.default_rng(0))
    expected = (result.confidence_interval.low, result.confidence_interval.high)
    assert bca_interval(tensor(values), confidence=confidence) == pytest.approx(expected, abs=1e-12)


def test_interval_of_equal_values_is_their_mean():
    assert bca_interval(tensor([0.1, 0.1, 0.1])) == (0.1, 0.1)


def test_one_value_has_no_interval():
    assert all(math.isnan(end) for end in bca_interval(tensor([0.3])))


def test_undefined_value_makes_the_interval_undefined():
    assert all(math.isnan(end) for end in bca_interval(tensor([0.3, math.nan, 0.2])))


def test_confidence_of_1_is_refused():
    with pytest.raises(ValueError, match=r"a confidence in \(0, 1\)"):
        bca_interval(tensor([0.3, 0.4]), confidence=1)
