"""Differences between the mean results of experiments, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from lightning_xai.runs.results_table import KEYS


def welch_interval(
    values: Sequence[float], reference: Sequence[float], *, confidence: float = 0.95
) -> tuple[float, float]:
    """Returns the ends of the confidence interval of mean(values) - mean(reference), by Welch's t-test.

    The interval assumes independent and normally distributed values; the two variances may differ. It is (NaN, NaN) if
    there are fewer than two values on a side, or if the values of both sides do not vary.

    Args:
        values: results of the seeds of one experiment.
        reference: results of the seeds of the other experiment.
        confidence: confidence level of the interval, in (0, 1).

    Example:
        >>> low, high = welch_interval([0.80, 0.84, 0.82], [0.70, 0.74, 0.72])
        >>> round(low, 3), round(high, 3)
        (0.055, 0.145)

    Reference: Welch (1947), "The Generalization of 'Student's' Problem when Several Different Population Variances are
    Involved", Biometrika 34.
    """
    from scipy.stats import t as student  # its import takes half a second

    first, second = np.asarray(values, dtype=float), np.asarray(reference, dtype=float)
    if min(len(first), len(second)) < 2 or np.ptp(first) == np.ptp(second) == 0:
        return math.nan, math.nan
    sizes = np.array([len(first), len(second)])
    parts = np.array([first.var(ddof=1), second.var(ddof=1)]) / sizes  # variances of the two means
    freedom = parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum()
    half = float(student.ppf((1 + confidence) / 2, freedom)) * math.sqrt(parts.sum())
    difference = float(first.mean() - second.mean())
    return difference - half, difference + half


def differs(values: Sequence[float], reference: Sequence[float]) -> bool:
    """Returns whether the 95 % interval of the difference between two means does not contain 0.

    Example:
        >>> differs([0.80, 0.84, 0.82], [0.70, 0.74, 0.72]), differs([0.8], [0.7])
        (True, False)
    """
    low, high = welch_interval(values, reference)
    return low > 0 or high < 0


def differences_frame(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Returns how much the mean of each experiment differs from that of the first one, for each of their results.

    Args:
        rows: rows that `read_experiments` returns.
        names: the experiments.

    Returns:
        A table with the columns experiment, split, preset, method, metric, mean, reference (mean of the first
        experiment), difference, low, high (ends of the 95 % interval of the difference), num_seeds and
        num_reference_seeds. Results that one of the two experiments lacks are left out.

    Example:
        >>> keys = {"split": "test", "preset": "", "method": "", "metric": "macro_f1"}
        >>> values = [("base", 0.70), ("base", 0.74), ("tm", 0.80), ("tm", 0.84)]
        >>> rows = pd.DataFrame([{"experiment": name, **keys, "value": value} for name, value in values])
        >>> frame = differences_frame(rows, ["base", "tm"])
        >>> frame[["experiment", "difference", "low", "high"]].round(3).values.tolist()
        [['tm', 0.1, -0.022, 0.222]]
    """
    by_name = {name: dict(list(rows[rows["experiment"] == name].groupby(KEYS, sort=False)["value"])) for name in names}
    reference = by_name[names[0]]
    found: list[dict[str, Any]] = []
    for name in names[1:]:
        for key, values in by_name[name].items():
            if key in reference:
                base = reference[key]
                low, high = welch_interval(values.tolist(), base.tolist())
                means = {"mean": values.mean(), "reference": base.mean(), "difference": values.mean() - base.mean()}
                sizes = {"num_seeds": len(values), "num_reference_seeds": len(base)}
                keys = dict(zip(KEYS, key, strict=True))
                found.append({"experiment": name} | keys | means | {"low": low, "high": high} | sizes)
    columns = ["mean", "reference", "difference", "low", "high", "num_seeds", "num_reference_seeds"]
    return pd.DataFrame(found, columns=["experiment", *KEYS, *columns])
