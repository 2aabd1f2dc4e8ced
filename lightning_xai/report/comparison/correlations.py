"""Correlations over runs between a predictor, such as plausibility, and another number, such as F1 out of domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pandas as pd


class Correlation(NamedTuple):
    """Pearson's correlation of N pairs, with a 95 % interval.

    Example:
        >>> Correlation(0.5, -0.2, 0.8, 9).num_runs
        9
    """

    value: float
    low: float
    high: float
    num_runs: int

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"r = {self.value:.2f}, {self.num_runs} runs, too few for an interval"
        return f"r = {self.value:.2f} [{self.low:.2f}, {self.high:.2f}], {self.num_runs} runs"


def correlation(x: Sequence[float], y: Sequence[float], *, confidence: float = 0.95) -> Correlation:
    """Returns Pearson's correlation with the interval of Fisher's transformation, which takes the pairs as independent.

    The value is NaN for fewer than two pairs or if one side is constant; the interval is NaN for fewer than four pairs.

    Args:
        x, y: [N] values of N runs.
        confidence: probability of the interval, in (0, 1).

    Example:
        >>> found = correlation([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 1.0, 3.0, 2.0])
        >>> [round(number, 3) for number in found[:3]]
        [0.832, -0.189, 0.989]
    """
    first, second = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    size = len(first)
    if size < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return Correlation(math.nan, math.nan, math.nan, size)
    value = float(np.clip(np.corrcoef(first, second)[0, 1], -1.0, 1.0))
    if size < 4:
        return Correlation(value, math.nan, math.nan, size)
    if abs(value) == 1.0:
        return Correlation(value, value, value, size)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) / math.sqrt(size - 3)
    low, high = (math.tanh(math.atanh(value) + sign * reach) for sign in (-1, 1))
    return Correlation(value, low, high, size)


def paired_runs(rows: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Returns experiment, seed, x and y of the runs that have both quantities.

    Args:
        rows: the columns experiment, seed, quantity and value.
        x, y: two values of the column quantity.

    Example:
        >>> rows = pd.DataFrame([("tm", 0, "auroc", 0.5), ("tm", 0, "f1", 0.75), ("tm", 1, "f1", 0.25)])
        >>> rows.columns = ["experiment", "seed", "quantity", "value"]
        >>> paired_runs(rows, "auroc", "f1").to_numpy().tolist()
        [['tm', 0, 0.5, 0.75]]
    """
    wide = rows.pivot(index=["experiment", "seed"], columns="quantity", values="value")
    wide = wide.reindex(columns=[x, y]).dropna()
    return wide.set_axis(["x", "y"], axis="columns").reset_index()
