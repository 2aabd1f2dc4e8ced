"""The synthetic problem on which recursive ROAR finds the true order of importance and ROAR does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

NUM_FEATURES = 16
NUM_INFORMATIVE = 4
TRUE_ORDER = tuple(range(NUM_FEATURES))  # the informative features first
WORST_ORDER = TRUE_ORDER[NUM_INFORMATIVE:] + TRUE_ORDER[:NUM_INFORMATIVE]

Examples = tuple[Tensor, Tensor]  # x [N, F] float64, y [N] bool
Fit = Callable[[Tensor, Tensor], tuple[Tensor, float]]  # examples -> weights [F], bias


def synthetic_problem(num_train: int, num_test: int, *, seed: int = 0) -> tuple[Examples, Examples]:
    """Returns examples to train and to test on, of 16 features.

    x = a z / 10 + d eta + epsilon / 10 and y = z > 0. Only the first four entries of a are not 0, and each of these
    four features, with any two others that remove eta and epsilon, tells z exactly: they are redundant.

    Reference: Hooker et al. (2019), "A Benchmark for Interpretability Methods in Deep Neural Networks",
    arXiv 1806.10758; Madsen et al. (2022), arXiv 2110.08412, Eq. 1.
    """
    generator = np.random.default_rng(seed)
    a = np.zeros((1, NUM_FEATURES))
    a[:, :NUM_INFORMATIVE] = generator.standard_normal((1, NUM_INFORMATIVE))
    d = generator.standard_normal((1, NUM_FEATURES))
    found = []
    for num_examples in (num_train, num_test):
        z, eta, epsilon = (generator.standard_normal((num_examples, 1)) for _ in range(3))
        x = a * z / 10 + d * eta + epsilon / 10
        found.append((torch.from_numpy(x), torch.from_numpy(z[:, 0] > 0)))
    return found[0], found[1]


def logistic_regression(x: Tensor, y: Tensor, *, tolerance: float = 1e-4, max_steps: int = 20) -> tuple[Tensor, float]:
    """Returns the weights [F] and the bias of unpenalized logistic regression, by Newton's method in float64.

    Of weights that predict the same, the shortest. Classes that a plane separates have no optimum; the steps end where
    the gradient is small for them as well.

    Args:
        x: [N, F].
        y: [N] bool.
        tolerance: of the gradient's largest entry, in nats a unit of a feature, as scikit-learn's: features whose
            gradient at 0 is no larger count as uninformative and get no weight.
    """
    mean = x.mean(dim=0)
    variances, directions = torch.linalg.eigh(x.T @ x / len(x) - mean.outer(mean))
    kept = variances > 1e-12 * variances[-1]
    basis = directions[:, kept] / variances[kept].sqrt()  # [F, R]: to R features of variance 1
    design = torch.cat([(x - mean) @ basis, torch.ones_like(x[:, :1])], dim=1)
    weights = x.new_zeros(design.shape[1])
    for _ in range(max_steps):
        probs = (design @ weights).sigmoid()
        missing = (y.double() - probs) / len(x)
        if max((missing @ x).abs().max(), missing.sum().abs()) <= tolerance:
            break
        hessian = (design * (probs * (1 - probs)).unsqueeze(1)).T @ design / len(x)
        weights = weights + torch.linalg.solve(hessian, missing @ design)
    found = basis @ weights[:-1]
    return found, float(weights[-1] - mean @ found)


def accuracies(
    order: Sequence[int],
    train: Examples,
    test: Examples,
    counts: Sequence[int] = tuple(range(NUM_FEATURES + 1)),
    *,
    fit: Fit = logistic_regression,
) -> list[float]:
    """Returns the test accuracies of models trained without the first features of `order`, for each of `counts`."""
    found = []
    for count in counts:
        kept = list(order[count:])
        weights, bias = fit(train[0][:, kept], train[1]) if kept else (train[0].new_zeros(0), 0.0)
        predicted = test[0][:, kept] @ weights + bias > 0
        found.append(float((predicted == test[1]).double().mean()))
    return found


def roar_order(train: Examples, *, fit: Fit = logistic_regression) -> list[int]:
    """Returns the features in descending order of the absolute weights of one model."""
    return fit(*train)[0].abs().argsort(descending=True, stable=True).tolist()


def recursive_roar_order(
    train: Examples, *, num_steps: int = NUM_FEATURES, fit: Fit = logistic_regression
) -> list[int]:
    """Returns the first `num_steps` features, each the largest weight of a model trained without those before it."""
    order: list[int] = []
    for _ in range(num_steps):
        kept = [feature for feature in TRUE_ORDER if feature not in order]
        weights, _ = fit(train[0][:, kept], train[1])
        order.append(kept[int(weights.abs().argmax())])
    return order
