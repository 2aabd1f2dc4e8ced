"""Finds the distinct rows of a table."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the indices `first` [U] and `inverse` [R] that describe the U distinct rows among R rows.

    `first` holds the index of each distinct row's first occurrence, so that `rows[first]` are the distinct rows, in
    ascending order. `inverse` holds the index of each row among the distinct rows, so that `rows[first][inverse]`
    equals `rows`.

    Args:
        rows: [R] or [R, n], integers or bool. The results are on the device of `rows`, except that the results for bool
            [R, n] are on the CPU.

    Example:
        >>> first, inverse = distinct_rows(torch.tensor([[2, 0], [1, 5], [2, 0]]))
        >>> first.tolist(), inverse.tolist()  # the distinct rows are [1, 5] and [2, 0]
        ([1, 0], [1, 0, 1])
    """
    if rows.dtype == torch.bool and rows.dim() == 2:  # packing rows into bytes makes sorting many times faster
        packed = np.ascontiguousarray(np.packbits(rows.cpu().numpy(), axis=1))
        keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, places_of_first, places_among = np.unique(keys, return_index=True, return_inverse=True)
        return torch.from_numpy(places_of_first), torch.from_numpy(places_among.reshape(-1))
    distinct, inverse = rows.unique(dim=0, return_inverse=True)
    places = torch.arange(len(rows), device=rows.device)
    first = torch.full((len(distinct),), len(rows), device=rows.device).scatter_reduce(0, inverse, places, "amin")
    return first, inverse
