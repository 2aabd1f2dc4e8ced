"""RACU: the area between the random curve and a measure's curve of ROAR, and its interval over seeds."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor


def racu(baseline: Tensor, measure: Tensor, fractions: Tensor, *, clipped: bool = True) -> Tensor:
    """Returns [...] float64: how much of the area that could be lost a measure's erasures lose more than random ones.

    1 if a measure's first erasure already costs all that erasing everything costs, 0 for one no better than random
    erasures, negative for a worse one. NaN where random erasures cost nothing or help.

    Args:
        baseline: [..., P] scores, of which higher ones are better, after random erasures of `fractions`, the last of
            which erases everything.
        measure: [..., P] scores after the measure's erasures.
        fractions: [P] of tokens erased, ascending, from 0 to 1.
        clipped: to [-1, 1], as the authors do in each seed.

    Raises:
        ValueError: curves of other lengths than `fractions`, or fractions that do not ascend from 0 to 1.

    Reference: Madsen et al. (2022), "Evaluating the Faithfulness of Importance Measures in NLP by Recursively Masking
    Allegedly Important Tokens and Retraining", arXiv 2110.08412, Eq. 3.
    Differs: Eq. 3 writes its sums up to I - 1 over a count of I; here, as in the authors' code, every step counts.
    Theirs divides by a negative area as well, which turns every sign around.
    """
    share = _share(baseline.double() - measure.double(), baseline, fractions)
    return share.clamp(-1, 1) if clipped else share


def leakage(baseline: Tensor, positions: Tensor, fractions: Tensor) -> Tensor:
    """Returns [...] float64: what the positions of erasures alone, without a word, tell of the label.

    In the unit of `racu`, which it can lower by as much: the area between the scores [..., P] of models that see
    positions only and that of erasing everything, over the area that could be lost. 0 if the choice of tokens tells
    nothing of the label.

    Raises:
        ValueError: see `racu`.
    """
    return _share(positions.double() - baseline[..., -1:].double(), baseline, fractions)


def _share(heights: Tensor, baseline: Tensor, fractions: Tensor) -> Tensor:
    """Returns the area under `heights` [..., P] over that between the baseline and its end."""
    x, b = fractions.double(), baseline.double()
    if not len(x) == b.shape[-1] == heights.shape[-1]:
        raise ValueError(f"{len(x)} fractions, but curves of {b.shape[-1]} and {heights.shape[-1]} points")
    if len(x) < 2 or x[0] != 0 or x[-1] != 1 or not (x.diff() > 0).all():
        raise ValueError(f"fractions are {x.tolist()}: give ascending ones from 0 to 1")
    largest = torch.trapezoid(b - b[..., -1:], x, dim=-1)
    return torch.trapezoid(heights, x, dim=-1) / largest.masked_fill(largest <= 0, torch.nan)


def bca_interval(
    values: Tensor, *, confidence: float = 0.95, num_resamples: int = 9999, seed: int = 0
) -> tuple[float, float]:
    """Returns the ends of the bias-corrected and accelerated bootstrap interval of the mean of `values` [N].

    Equal to scipy.stats.bootstrap(..., method="BCa", rng=seed). Both ends are the mean where all values are equal, and
    NaN for a single value, of which nothing can be said.

    Args:
        confidence: probability in (0, 1) with which the interval is to hold the mean.

    Raises:
        ValueError: no values, or a confidence outside (0, 1).

    Reference: Efron and Tibshirani (1993), "An Introduction to the Bootstrap", Eq. 14.10, 14.14 and 14.15.
    """
    if not 0 < confidence < 1 or not values.numel():
        raise ValueError(f"{values.numel()} values, confidence {confidence}: give values, and a confidence in (0, 1)")
    data = values.detach().double().cpu().numpy()
    size, mean = len(data), float(data.mean())
    if size == 1 or np.isnan(data).any():
        return math.nan, math.nan
    if data.min() == data.max():  # whose mean's rounding would differ
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
    """Returns [num_resamples, size] places of a value: the same draws for every interval, as each has its own rng."""
    return np.random.default_rng(seed).integers(0, size, (num_resamples, size))
