"""RACU: the area between ROAR's random curve and the curve of an attribution method, and its interval over seeds."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor


def racu(random: Tensor, method: Tensor, fractions: Tensor, *, clipped: bool = True) -> Tensor:
    """Returns [...] float64: the area between the curves of random and of a method's erasures, relative to all area.

    All area is that between the random curve and the score after everything is erased. The value is 1 if a method's
    first erasure already costs as much as erasing everything, 0 if its erasures cost as much as random ones, and
    negative if they cost less. It is NaN where random erasures cost nothing or help.

    Args:
        random: [..., P] scores of networks after random erasures; higher scores are better.
        method: [..., P] scores of networks after the method's erasures.
        fractions: [P] fraction of tokens that each point erases, ascending from 0 to 1.
        clipped: to [-1, 1], as the authors do in each seed.

    Raises:
        ValueError: a curve has another length than `fractions`, or `fractions` do not ascend from 0 to 1.

    Example:
        >>> fractions = torch.tensor([0.0, 0.5, 1.0])
        >>> random, method = torch.tensor([0.75, 0.5, 0.25]), torch.tensor([0.75, 0.25, 0.25])
        >>> float(racu(random, method, fractions))  # 0.125 lies between the curves, 0.25 under the random one
        0.5

    Reference: Madsen et al. (2022), "Evaluating the Faithfulness of Importance Measures in NLP by Recursively Masking
    Allegedly Important Tokens and Retraining", arXiv 2110.08412, Eq. 3.
    Differs: Eq. 3 writes its sums up to I - 1 over a count of I; here, as in the authors' code, every step counts.
    Theirs divides by a negative area as well, which turns every sign around.
    """
    share = _share(random.double() - method.double(), random, fractions)
    return share.clamp(-1, 1) if clipped else share


def leakage(random: Tensor, positions: Tensor, fractions: Tensor) -> Tensor:
    """Returns [...] float64: how much the positions of a method's erasures tell of the label, without a word of text.

    This is the area between the curve of networks that see positions only and the score after everything is erased,
    relative to the same area as in `racu`. Leakage can lower `racu` by as much. It is 0 if the choice of tokens tells
    nothing of the label.

    Args:
        random: [..., P] scores after random erasures, see `racu`.
        positions: [..., P] scores of networks that see only the positions of the method's erasures.
        fractions: [P], see `racu`.

    Raises:
        ValueError: see `racu`.

    Example:
        >>> random, positions = torch.tensor([0.75, 0.5, 0.25]), torch.tensor([0.25, 0.5, 0.25])
        >>> float(leakage(random, positions, torch.tensor([0.0, 0.5, 1.0])))  # 0.125 of 0.25
        0.5
    """
    return _share(positions.double() - random[..., -1:].double(), random, fractions)


def _share(heights: Tensor, random: Tensor, fractions: Tensor) -> Tensor:
    """Returns the area under `heights` [..., P] relative to that between the random curve and its last score."""
    x, scores = fractions.double(), random.double()
    if not len(x) == scores.shape[-1] == heights.shape[-1]:
        raise ValueError(f"{len(x)} fractions, but curves of {scores.shape[-1]} and {heights.shape[-1]} points")
    if len(x) < 2 or x[0] != 0 or x[-1] != 1 or not (x.diff() > 0).all():
        raise ValueError(f"fractions are {x.tolist()}: give ascending ones from 0 to 1")
    largest = torch.trapezoid(scores - scores[..., -1:], x, dim=-1)
    return torch.trapezoid(heights, x, dim=-1) / largest.masked_fill(largest <= 0, torch.nan)


def bca_interval(
    values: Tensor, *, confidence: float = 0.95, num_resamples: int = 9999, seed: int = 0
) -> tuple[float, float]:
    """Returns both ends of the bias-corrected and accelerated (BCa) bootstrap interval of a mean.

    They equal those of scipy.stats.bootstrap(..., method="BCa", rng=seed). Both are the mean if all values are equal,
    and NaN for a single value, which does not show how values vary.

    Args:
        values: [N].
        confidence: probability in (0, 1) with which the interval should contain the mean.
        num_resamples: number of bootstrap samples.
        seed: of the random number generator that draws them.

    Raises:
        ValueError: there are no values, or the confidence is outside (0, 1).

    Example:
        >>> [round(end, 6) for end in bca_interval(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]))]
        [0.18, 0.42]

    Reference: Efron and Tibshirani (1993), "An Introduction to the Bootstrap", Eq. 14.10, 14.14 and 14.15.
    """
    if not 0 < confidence < 1 or not values.numel():
        raise ValueError(f"{values.numel()} values, confidence {confidence}: give values, and a confidence in (0, 1)")
    data = values.detach().double().cpu().numpy()
    size, mean = len(data), float(data.mean())
    if size == 1 or np.isnan(data).any():
        return math.nan, math.nan
    if data.min() == data.max():  # the mean of equal values may differ from them by rounding
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
    """Returns [num_resamples, size] drawn places of values; intervals of equal size and seed share the draws."""
    return np.random.default_rng(seed).integers(0, size, (num_resamples, size))
