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


def paired_interval(differences: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the ends of the confidence interval of the mean difference of paired values, by the paired t-test.

    The interval assumes independent and normally distributed differences. It is (NaN, NaN) if there are fewer than two,
    or if they are all equal.

    Args:
        differences: the difference of each pair, such as that of two runs with the same seed.
        confidence: confidence level of the interval, in (0, 1).

    Example:
        >>> low, high = paired_interval([0.10, 0.12, 0.11])
        >>> round(low, 3), round(high, 3)
        (0.085, 0.135)
    """
    from scipy.stats import t as student

    values = np.asarray(differences, dtype=float)
    if len(values) < 2 or np.ptp(values) == 0:
        return math.nan, math.nan
    mean = float(values.mean())
    half = (
        float(student.ppf((1 + confidence) / 2, len(values) - 1)) * float(values.std(ddof=1)) / math.sqrt(len(values))
    )
    return mean - half, mean + half


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
        experiment), difference, low, high (ends of the 95 % interval of the difference, by Welch's t-test), num_seeds,
        num_reference_seeds, paired_difference, paired_low, paired_high (mean difference over the seeds that both
        experiments have, with its 95 % interval by the paired t-test) and num_pairs. Results that one of the two
        experiments lacks are left out.

    Example:
        >>> keys = {"split": "test", "preset": "", "method": "", "metric": "macro_f1"}
        >>> values = [("base", 0, 0.70), ("base", 1, 0.74), ("tm", 0, 0.80), ("tm", 1, 0.85)]
        >>> rows = pd.DataFrame([{"experiment": name, "seed": seed, **keys, "value": x} for name, seed, x in values])
        >>> frame = differences_frame(rows, ["base", "tm"]).set_index("experiment")
        >>> frame[["difference", "low", "high", "paired_low", "paired_high"]].round(3).loc["tm"].tolist()
        [0.105, -0.039, 0.249, 0.041, 0.169]
    """
    results = {
        name: {key: group.set_index("seed")["value"] for key, group in part.groupby(KEYS, sort=False)}
        for name, part in rows.groupby("experiment")
    }
    references = results.get(names[0], {})
    found: list[dict[str, Any]] = []
    for name in names[1:]:
        for key, values in results.get(name, {}).items():
            if key in references:
                keys = dict(zip(KEYS, key, strict=True))
                found.append({"experiment": name, **keys, **_difference(values, references[key])})
    columns = list(_difference(pd.Series(dtype=float), pd.Series(dtype=float)))
    return pd.DataFrame(found, columns=["experiment", *KEYS, *columns])


def _difference(values: pd.Series, reference: pd.Series) -> dict[str, float]:
    """Returns the entries of `differences_frame` for one result of two experiments, both indexed by seed."""
    low, high = welch_interval(values.tolist(), reference.tolist())
    paired = (values - reference).dropna()  # of the seeds that both have
    paired_low, paired_high = paired_interval(paired.tolist())
    return {
        "mean": values.mean(), "reference": reference.mean(), "difference": values.mean() - reference.mean(),
        "low": low, "high": high, "num_seeds": len(values), "num_reference_seeds": len(reference),
        "paired_difference": paired.mean(), "paired_low": paired_low, "paired_high": paired_high,
        "num_pairs": len(paired),
    }  # fmt: skip
