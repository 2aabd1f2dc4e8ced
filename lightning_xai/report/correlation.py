"""Pearson's correlation of two quantities over runs, with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

FEWEST_RUNS = 3  # over only two runs, a correlation is always 1 or -1


class Correlation(NamedTuple):
    """Pearson's correlation of two quantities over N runs, with the ends of its confidence interval.

    Example:
        >>> print(Correlation(0.5, -0.25, 0.75, 9))
        r = 0.50 [-0.25, 0.75], 9 runs
        >>> print(correlation([0.5], [0.25]))
        no correlation over 1 run: at least 3 are needed
    """

    value: float
    low: float
    high: float
    num_runs: int

    def __str__(self) -> str:
        runs = f"{self.num_runs} run{'s' * (self.num_runs != 1)}"
        if self.num_runs < FEWEST_RUNS:
            return f"no correlation over {runs}: at least {FEWEST_RUNS} are needed"
        if math.isnan(self.value):
            return f"no correlation, because a quantity has the same value in all {runs}"
        if math.isnan(self.low):
            return f"r = {self.value:.2f}, {runs}, too few for a confidence interval"
        return f"r = {self.value:.2f} [{self.low:.2f}, {self.high:.2f}], {runs}"


def correlation(x: Sequence[float], y: Sequence[float], *, confidence: float = 0.95) -> Correlation:
    """Returns Pearson's correlation of two quantities, and its confidence interval by Fisher's transformation.

    The interval assumes that the runs are independent. The correlation is NaN if there are fewer than three runs, or if
    x or y is constant. The interval is NaN if there are fewer than four runs.

    Args:
        x, y: the two quantities, with a value for each of N runs.
        confidence: confidence level of the interval, in (0, 1).

    Example:
        >>> pearson = correlation([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 1.0, 3.0, 2.0])
        >>> [round(number, 3) for number in pearson[:3]]
        [0.832, -0.189, 0.989]
    """
    first, second = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    size = len(first)
    if size < FEWEST_RUNS or np.ptp(first) == 0 or np.ptp(second) == 0:
        return Correlation(math.nan, math.nan, math.nan, size)
    value = float(np.clip(np.corrcoef(first, second)[0, 1], -1.0, 1.0))
    if size < 4:
        return Correlation(value, math.nan, math.nan, size)
    if abs(value) == 1.0:
        return Correlation(value, value, value, size)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) / math.sqrt(size - 3)
    low, high = (math.tanh(math.atanh(value) + sign * reach) for sign in (-1, 1))
    return Correlation(value, low, high, size)
