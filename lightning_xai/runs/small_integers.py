"""Whole numbers in as few bytes as they need."""

from __future__ import annotations

import numpy as np


def smallest(values: np.ndarray) -> np.ndarray:
    """Returns whole numbers as int32 if they fit, and as int64 otherwise.

    Example:
        >>> smallest(np.array([1, 2])).dtype, smallest(np.array([1 << 40])).dtype
        (dtype('int32'), dtype('int64'))
    """
    limits = np.iinfo(np.int32)
    fits = not len(values) or limits.min <= int(values.min()) and int(values.max()) <= limits.max
    return values.astype(np.int32 if fits else np.int64)
