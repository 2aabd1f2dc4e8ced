"""Weights of terms (constant, or changing over the training steps), and the weighted mean of a term's values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor

Weight = float | list[tuple[float, float]]


def check_weight(weight: Weight, name: str = "weight") -> None:
    """Raises ValueError if a weight is negative or not finite, or if a schedule's fractions do not rise in [0, 1].

    Example:
        >>> check_weight([(0.0, 0.0), (0.1, 1.0)])
        >>> check_weight(-1.0)
        Traceback (most recent call last):
        ValueError: weight is -1.0: give a finite number of at least 0
    """
    points = weight if isinstance(weight, list) else [(0.0, weight)]
    for _, value in points:
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value}: give a finite number of at least 0")
    fractions = [fraction for fraction, _ in points]
    if not points or min(fractions) < 0 or max(fractions) > 1 or any(b <= a for a, b in pairwise(fractions)):
        raise ValueError(
            f"{name} is {weight}: give pairs (fraction of the steps, factor) with rising fractions between 0 and 1"
        )


def is_ever_active(weight: Weight) -> bool:
    """Returns whether the weight is above 0 at any step.

    Example:
        >>> is_ever_active(0.0), is_ever_active([(0.0, 0.0), (1.0, 0.5)])
        (False, True)
    """
    return any(value > 0 for _, value in weight) if isinstance(weight, list) else weight > 0


def weight_at(weight: Weight, fraction: float) -> float:
    """Returns the weight after a fraction of the training steps.

    Between two points of a schedule, the weight changes linearly. Before the first point and after the last, it is
    constant.

    Example:
        >>> weight_at([(0.0, 0.0), (0.5, 2.0)], 0.25), weight_at([(0.0, 0.0), (0.5, 2.0)], 0.75), weight_at(3.0, 0.1)
        (1.0, 2.0, 3.0)
    """
    if not isinstance(weight, list):
        return weight
    if fraction <= weight[0][0]:
        return weight[0][1]
    for (start, first), (end, last) in pairwise(weight):
        if fraction <= end:
            return first + (last - first) * (fraction - start) / (end - start)
    return weight[-1][1]


def weighted_mean(values: Tensor, weights: Tensor, expected_weight: float | None) -> Tensor:
    """Returns the mean [] of values [B] with weights [B].

    Args:
        values: [B].
        weights: [B], 0 for an example that does not count.
        expected_weight: mean weight of a training example. If given, the sum of weight * value is divided by
            B * expected_weight, which does not depend on the weights of this batch. If None, the sum is divided by the
            sum of the weights, or by 1 if the sum of the weights is below 1.

    Example:
        >>> values, weights = torch.tensor([4.0, 1.0]), torch.tensor([1.0, 0.0])
        >>> weighted_mean(values, weights, None).item(), weighted_mean(values, weights, 0.25).item()
        (4.0, 8.0)
    """
    total = (values * weights.to(values.dtype)).sum()
    if expected_weight is None:
        return total / weights.sum().clamp_min(1).to(values.dtype)
    return total / (len(values) * expected_weight)


def weighted_sum(values: Mapping[str, Tensor], weights: Mapping[str, float], start: Tensor | float = 0.0) -> Tensor:
    """Returns `start` + the sum of weights[name] * values[name] over the names in `weights`.

    Example:
        >>> weighted_sum({"igr": torch.tensor(2.0), "vat": torch.tensor(1.0)}, {"igr": 0.5}, start=3.0)
        tensor(4.)
    """
    total = torch.as_tensor(start)
    for name, weight in weights.items():
        total = total + weight * values[name]
    return total
