"""Numbers over the seeds of one experiment."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def mean_and_std(values: Sequence[float], *, population: bool = True) -> tuple[float, float]:
    """Returns the mean and the standard deviation of one number over seeds.

    Args:
        values: one number a seed.
        population: divide by n, as the papers' tables do, instead of n - 1 (NaN for a single seed).

    Raises:
        ValueError: no values.
    """
    if not len(values):
        raise ValueError("there are no values to average: finish at least one seed")
    numbers = torch.tensor(values, dtype=torch.float64)
    if len(numbers) == 1:
        return float(numbers), 0.0 if population else float("nan")
    return float(numbers.mean()), float(numbers.std(correction=0 if population else 1))
