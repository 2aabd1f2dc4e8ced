"""Integers take half of the memory where they fit."""

import numpy as np
import pytest

from lightning_xai.runs.small_integers import smallest


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([], np.int32),
        ([2**31 - 1, -(2**31)], np.int32),
        ([2**31], np.int64),
        ([-(2**31) - 1], np.int64),
    ],
)
def test_values_at_the_limits_are_kept(values, dtype):
    stored = smallest(np.array(values, dtype=np.int64))
    assert stored.dtype == dtype and stored.tolist() == values
