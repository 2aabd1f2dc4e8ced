"""The synthetic problem of Madsen et al. (2022), Section 3.3: oracle E5, made with scikit-learn."""

import math

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from tests.chains.synthetic_roar import (
    TRUE_ORDER,
    WORST_ORDER,
    accuracies,
    logistic_regression,
    recursive_roar_order,
    roar_order,
    synthetic_problem,
)

CHANCE = 0.49844  # accuracy with all features masked, oracle E5


@pytest.fixture(scope="module")
def small():
    return synthetic_problem(20_000, 5_000)


@pytest.fixture(scope="module")
def whole():
    return synthetic_problem(200_000, 50_000)


def scikit_learn(x, y):
    model = LogisticRegression(C=math.inf).fit(x.numpy(), y.numpy())
    return torch.from_numpy(model.coef_[0]), float(model.intercept_[0])


def first_drop(order, train, test):
    """Returns how many features are removed when the accuracy first falls below 0.9."""
    return next(count for count, value in enumerate(accuracies(order, train, test)) if value < 0.9)


def test_only_the_first_four_features_depend_on_the_class(small):
    (x, y), _ = small
    gaps = (x[y].mean(dim=0) - x[~y].mean(dim=0)).abs()
    # 1.6 |a| / 10 with the a of oracle E5, beside the noise of d eta
    assert gaps[2] == pytest.approx(1.596 * 0.0640423, abs=0.02)
    assert gaps[:4].sum() > 0.1


def test_weights_equal_scikit_learn_where_there_is_an_optimum():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 3, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 5.0, 0.3])
    y = x @ torch.tensor([1.0, -0.2, 2.0], dtype=torch.float64) + torch.randn(400, generator=generator) > 0.5
    weights, bias = logistic_regression(x, y, tolerance=1e-12)
    model = LogisticRegression(C=math.inf, tol=1e-10, max_iter=1000).fit(x.numpy(), y.numpy())
    assert weights.tolist() == pytest.approx(model.coef_[0].tolist(), rel=1e-5)
    assert bias == pytest.approx(float(model.intercept_[0]), rel=1e-5)


def test_of_weights_that_predict_the_same_the_shortest_are_found():
    x = torch.randn(300, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = x[:, 0] + torch.randn(300, generator=torch.Generator().manual_seed(1)) > 0
    once, _ = logistic_regression(x, y, tolerance=1e-12)
    twice, _ = logistic_regression(x.expand(-1, 2).contiguous(), y, tolerance=1e-12)
    assert twice.tolist() == pytest.approx([float(once) / 2] * 2)


@pytest.mark.slow
def test_recursive_roar_drops_with_the_truth_and_roar_late(small):
    train, test = small
    assert first_drop(TRUE_ORDER, train, test) == 4
    assert first_drop(recursive_roar_order(train), train, test) == 4
    assert first_drop(roar_order(train), train, test) == 10
    assert first_drop(WORST_ORDER, train, test) == 14


@pytest.mark.slow
def test_recursive_roar_finds_the_informative_features_first(whole):
    assert recursive_roar_order(whole[0], num_steps=4) == [2, 1, 0, 3]


def test_roar_finds_redundant_features_late(whole):
    assert roar_order(whole[0]) == [2, 1, 15, 8, 0, 14, 7, 9, 13, 3, 5, 10, 12, 6, 4, 11]


def test_nothing_is_left_without_the_informative_features(whole):
    train, test = whole
    assert accuracies(TRUE_ORDER, train, test, [4, 9, 15, 16]) == [CHANCE] * 4


def test_roar_falls_to_chance_at_ten_features(whole):
    train, test = whole
    nine, *rest = accuracies(roar_order(train), train, test, [9, 10, 16])
    assert nine > 0.999 and rest == [CHANCE] * 2


def test_worst_order_keeps_the_accuracy_to_the_last_three_features(whole):
    train, test = whole
    thirteen, *rest = accuracies(WORST_ORDER, train, test, [13, 14, 15, 16])
    assert thirteen > 0.999 and [round(value, 4) for value in rest] == [0.7939, 0.5064, 0.4984]


@pytest.mark.slow  # 8 regressions on 10,000 rows
def test_accuracies_with_scikit_learn_are_the_oracles(whole):
    train, test = whole
    truth = accuracies(TRUE_ORDER, train, test, [0, 1, 2, 3, 4], fit=scikit_learn)
    recursive = accuracies([2, 1, 0, 3, *range(4, 16)], train, test, [0, 1, 2, 3, 4], fit=scikit_learn)
    assert truth == pytest.approx([0.9996, 1.0, 0.99998, 0.9999, CHANCE], abs=1e-9)
    assert recursive == pytest.approx([0.9996, 0.99988, 0.99986, 0.9999, CHANCE], abs=1e-9)
