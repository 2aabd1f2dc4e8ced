"""Stores integers as int32 if they fit."""

from __future__ import annotations

import numpy as np


def smallest(values: np.ndarray) -> np.ndarray:
    """Returns integers as int32 if they fit, otherwise as int64.

    Example:
        >>> smallest(np.array([1, 2])).dtype, smallest(np.array([1 << 40])).dtype
        (dtype('int32'), dtype('int64'))
    """
    limits = np.iinfo(np.int32)
    fits = not len(values) or limits.min <= int(values.min()) and int(values.max()) <= limits.max
    return values.astype(np.int32 if fits else np.int64)
