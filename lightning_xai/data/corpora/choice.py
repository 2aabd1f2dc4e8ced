"""The random choice of a limited number of rows, with or without regard to their classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def choose_rows(num_rows: int, max_rows: int | None, seed: int | Sequence[int]) -> np.ndarray:
    """Returns the indices of `max_rows` randomly chosen rows, in ascending order.

    If `max_rows` is None or exceeds the number of rows, returns all indices.

    Example:
        >>> choose_rows(3, None, seed=0).tolist()
        [0, 1, 2]
        >>> len(choose_rows(100, 10, seed=0))
        10
    """
    if max_rows is None or max_rows >= num_rows:
        return np.arange(num_rows)
    return np.sort(np.random.default_rng(seed).permutation(num_rows)[:max_rows])


def choose_stratified_rows(labels: np.ndarray, max_rows: int | None, seed: int | Sequence[int]) -> np.ndarray:
    """Returns the indices of `max_rows` randomly chosen rows, in ascending order, with the class shares of all rows.

    The number of rows of a class differs by less than 1 from `max_rows` times the share of the class. Classes whose
    number is rounded down most get the remaining rows; of classes that tie, the one with the lower label.

    Args:
        labels: [number of rows] the class of each row.
        max_rows: number of rows to choose. If None, or if it exceeds the number of rows, all rows are chosen.
        seed: seed of the choice.

    Example:
        >>> labels = np.array([0] * 90 + [1] * 10)
        >>> np.bincount(labels[choose_stratified_rows(labels, 20, seed=0)]).tolist()
        [18, 2]
    """
    if max_rows is None or max_rows >= len(labels):
        return np.arange(len(labels))
    _, counts = np.unique(labels, return_counts=True)
    chosen, remainders = np.divmod(max_rows * counts, len(labels))
    chosen[np.argsort(-remainders, kind="stable")[: max_rows - chosen.sum()]] += 1
    order = np.random.default_rng(seed).permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    first = np.cumsum(counts) - counts
    return np.sort(np.concatenate([by_class[begin : begin + n] for begin, n in zip(first, chosen, strict=True)]))
