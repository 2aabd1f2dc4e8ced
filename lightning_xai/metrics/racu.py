"""RACU, the area between the random curve and a method's curve in ROAR, and confidence intervals of means.

ROAR (Remove and Retrain) erases tokens, retrains networks, and plots their score over the fraction of erased tokens.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor


def racu(random: Tensor, method: Tensor, fractions: Tensor, *, clipped: bool = True) -> Tensor:
    """Returns [...] float64: the area between the random curve and a method's curve, divided by the largest area.

    The largest area lies between the random curve and a horizontal line at the last score of the random curve, where
    everything is erased. With small steps, the value is close to 1 if the method's first erasure already lowers the
    score to this line. The value is 0 if the method's erasures lower scores as much as random erasures, and negative if
    they lower scores less. The value is NaN where the largest area is not positive, that is, where random erasures do
    not lower scores.

    Args:
        random: [..., P] scores of networks after random erasures; higher scores are better.
        method: [..., P] scores of networks after the method's erasures.
        fractions: [P] fraction of tokens erased at each point, ascending from 0 to 1.
        clipped: whether the value is clipped to [-1, 1], as the authors do for each seed.

    Raises:
        ValueError: a curve and `fractions` differ in length, or `fractions` do not ascend from 0 to 1.

    Example:
        >>> fractions = torch.tensor([0.0, 0.5, 1.0])
        >>> random, method = torch.tensor([0.75, 0.5, 0.25]), torch.tensor([0.75, 0.25, 0.25])
        >>> float(racu(random, method, fractions))  # area 0.125 between the curves, largest area 0.25
        0.5

    Reference: Madsen et al. (2022), "Evaluating the Faithfulness of Importance Measures in NLP by Recursively Masking
    Allegedly Important Tokens and Retraining", arXiv 2110.08412, Eq. 3.
    Differs: the sum in Eq. 3 ends at I - 1, where I is the number of steps, so it would omit the last step. Here all
    steps count, as in the authors' code. If the largest area is negative, that code divides by it, which reverses the
    sign; here the value is NaN.
    """
    share = _share(random.double() - method.double(), random, fractions)
    return share.clamp(-1, 1) if clipped else share


def leakage(random: Tensor, positions: Tensor, fractions: Tensor) -> Tensor:
    """Returns [...] float64: how much the positions of a method's erasures reveal about the label.

    Networks that see only these positions, and no text, give the curve `positions`. The value is the area between this
    curve and a horizontal line at the last score of the random curve, divided by the largest area that `racu` defines.
    A leakage of v can lower `racu` by up to v. The value is 0 if the positions reveal nothing about the label.

    Args:
        random: [..., P] scores of networks after random erasures; higher scores are better.
        positions: [..., P] scores of networks that see only the positions of the method's erasures.
        fractions: [P] fraction of tokens erased at each point, ascending from 0 to 1.

    Raises:
        ValueError: a curve and `fractions` differ in length, or `fractions` do not ascend from 0 to 1.

    Example:
        >>> random, positions = torch.tensor([0.75, 0.5, 0.25]), torch.tensor([0.25, 0.5, 0.25])
        >>> float(leakage(random, positions, torch.tensor([0.0, 0.5, 1.0])))  # area 0.125, largest area 0.25
        0.5
    """
    return _share(positions.double() - random[..., -1:].double(), random, fractions)


def _share(heights: Tensor, random: Tensor, fractions: Tensor) -> Tensor:
    """Returns the area under `heights` [..., P], divided by the largest area, which `racu` defines."""
    x, scores = fractions.double(), random.double()
    if not len(x) == scores.shape[-1] == heights.shape[-1]:
        raise ValueError(
            f"there are {len(x)} fractions, but the curves have {scores.shape[-1]} and {heights.shape[-1]} points: "
            "give one point for each fraction"
        )
    if len(x) < 2 or x[0] != 0 or x[-1] != 1 or not (x.diff() > 0).all():
        raise ValueError(f"fractions are {x.tolist()}: give ascending fractions from 0 to 1")
    largest = torch.trapezoid(scores - scores[..., -1:], x, dim=-1)
    return torch.trapezoid(heights, x, dim=-1) / largest.masked_fill(largest <= 0, torch.nan)


def bca_interval(
    values: Tensor, *, confidence: float = 0.95, num_resamples: int = 9999, seed: int = 0
) -> tuple[float, float]:
    """Returns the lower and the upper end of the bias-corrected and accelerated (BCa) bootstrap interval of a mean.

    The ends equal the result of scipy.stats.bootstrap(..., method="BCa", rng=seed). Both ends are the mean if all
    values are equal. Both ends are NaN if there is only one value, or if a value is NaN.

    Args:
        values: [N] values whose mean is estimated.
        confidence: probability in (0, 1) with which the interval should contain the mean.
        num_resamples: number of bootstrap samples.
        seed: seed of the random number generator that draws the samples.

    Raises:
        ValueError: there are no values, or the confidence is outside (0, 1).

    Example:
        >>> [round(end, 6) for end in bca_interval(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]))]
        [0.18, 0.42]

    Reference: Efron and Tibshirani (1993), "An Introduction to the Bootstrap", Eq. 14.10, 14.14 and 14.15.
    """
    if not 0 < confidence < 1 or not values.numel():
        raise ValueError(
            f"there are {values.numel()} values, and the confidence is {confidence}: give at least one value, and a "
            "confidence in (0, 1)"
        )
    data = values.detach().double().cpu().numpy()
    size, mean = len(data), float(data.mean())
    if size == 1 or np.isnan(data).any():
        return math.nan, math.nan
    if data.min() == data.max():  # because of rounding, the mean of equal values could differ from each value
        return float(data[0]), float(data[0])
    means = data[_resamples(size, num_resamples, seed)].mean(axis=-1)
    normal = NormalDist()
    below = ((means < mean).sum() + (means <= mean).sum()) / (2 * num_resamples)
    bias = normal.inv_cdf(float(below))
    without = np.array([np.delete(data, i).mean() for i in range(size)])
    influence = without.mean() - without
    acceleration = float((influence**3).sum() / (6 * (influence**2).sum() ** 1.5))
    ends = []
    for tail in ((1 - confidence) / 2, (1 + confidence) / 2):
        shifted = bias + normal.inv_cdf(tail)
        ends.append(float(np.percentile(means, 100 * normal.cdf(bias + shifted / (1 - acceleration * shifted)))))
    return ends[0], ends[1]


@lru_cache(maxsize=4)
def _resamples(size: int, num_resamples: int, seed: int) -> np.ndarray:
    """Returns the indices [num_resamples, size] of random bootstrap samples. A cache keeps them for later intervals."""
    return np.random.default_rng(seed).integers(0, size, (num_resamples, size))
