"""Means over seeds with confidence intervals, in tables and curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch

from lightning_xai.metrics.racu import bca_interval
from lightning_xai.report.curves import Curve, Role


def with_intervals(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Returns the mean over seeds and its confidence interval, for each combination of values in the columns `keys`.

    Args:
        rows: one row for each seed and combination, with the columns `keys` and value.
        keys: names of columns, such as "method".

    Returns:
        A table with the columns `keys`, mean, low, high and num_seeds. The 95 % interval reaches from low to high. For
        a single seed, low and high are NaN. If the value of any seed is NaN, mean, low and high are NaN.

    Example:
        >>> rows = pd.DataFrame({"method": ["ig", "ig", "ig"], "seed": [0, 1, 2], "value": [0.5, 0.5, 0.5]})
        >>> print(with_intervals(rows, ["method"]).to_string(index=False))
        method  mean  low  high  num_seeds
            ig   0.5  0.5   0.5          3
    """
    summary: list[tuple[Any, ...]] = []
    for key, group in rows.groupby(list(keys), sort=False):
        low, high = bca_interval(torch.tensor(group["value"].to_numpy()))
        summary.append((*key, group["value"].mean(skipna=False), low, high, len(group)))
    return pd.DataFrame(summary, columns=[*keys, "mean", "low", "high", "num_seeds"])


def percent_curve(name: str, points: pd.DataFrame, x: str, role: Role = "curve") -> Curve:
    """Returns a curve through means, with their intervals. Means and intervals are multiplied by 100.

    Args:
        name: name of the curve.
        points: rows that `with_intervals` returns, sorted by `x`.
        x: name of the column for the horizontal axis.
        role: how the curve is drawn; see Curve.

    Example:
        >>> points = pd.DataFrame({"amount": [0, 50], "mean": [1.0, 0.75], "low": [1.0, 0.5], "high": [1.0, 1.0]})
        >>> curve = percent_curve("ig", points, "amount")
        >>> list(map(int, curve.x)), list(map(float, curve.mean))
        ([0, 50], [100.0, 75.0])
    """
    mean, low, high = (100 * points[column].to_numpy() for column in ("mean", "low", "high"))
    return Curve(name, points[x].to_numpy(), mean, low, high, role)
