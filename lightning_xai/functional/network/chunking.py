"""Chooses the number of rows in a forward pass: enough to keep the device busy, but not too many for its memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

# largest number of tokens in one forward pass. More tokens would not fit in the cache of a CPU; fewer would leave an
# accelerator partly idle. With gradients, the limits are lower, because the pass stores its activations (4 GB for
# 8,192 tokens in an encoder with the size of BERT-base)
_DIFFERENTIATED = {"cpu": 2**11, "accelerator": 2**13}
_EVALUATED = {"cpu": 2**12, "accelerator": 2**15}


def check_chunk_size(chunk_size: int | None) -> None:
    """Checks that `chunk_size` (a number of rows) is at least 1 or None.

    Raises:
        ValueError: `chunk_size` is less than 1.

    Example:
        >>> check_chunk_size(0)
        Traceback (most recent call last):
        ValueError: chunk_size is 0: give at least 1 row, or null to let the device decide
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}: give at least 1 row, or null to let the device decide")


def rows_per_forward(chunk_size: int | None, num_tokens: int, device: torch.device, *, differentiated: bool) -> int:
    """Returns the number of rows for one forward pass: as many as suit the device, but at most `chunk_size`.

    Args:
        chunk_size: largest number of rows; if None, only the device limits the number.
        num_tokens: length of each row in tokens.
        device: the network's device.
        differentiated: whether the pass keeps its activations for a backward pass.

    Example:
        >>> rows_per_forward(None, 512, torch.device("cpu"), differentiated=True)  # 2,048 tokens
        4
        >>> rows_per_forward(3, 512, torch.device("cpu"), differentiated=True)
        3
    """
    tokens = (_DIFFERENTIATED if differentiated else _EVALUATED)["cpu" if device.type == "cpu" else "accelerator"]
    fitting = max(tokens // max(num_tokens, 1), 1)
    return fitting if chunk_size is None else min(chunk_size, fitting)


def even_slices(num_rows: int, max_rows: int) -> Iterator[slice]:
    """Divides `num_rows` rows into the fewest slices of at most `max_rows` rows each. Slice sizes differ by at most 1.

    Example:
        >>> [list(range(7))[rows] for rows in even_slices(7, 3)]
        [[0, 1], [2, 3], [4, 5, 6]]
    """
    pieces = -(-num_rows // max_rows)
    for piece in range(pieces):
        yield slice(num_rows * piece // pieces, num_rows * (piece + 1) // pieces)


def packed_rows(
    lengths: Tensor, chunk_size: int | None, device: torch.device, *, differentiated: bool
) -> Iterator[slice]:
    """Yields a slice of rows for each forward pass. The shorter the rows are, the more rows share a pass.

    Args:
        lengths: [R] long, the rows' lengths in tokens, longest first.
        chunk_size: largest number of rows per pass; if None, only the device limits the number.
        device: the network's device.
        differentiated: whether the passes keep their activations for a backward pass.

    Example:
        >>> lengths = torch.tensor([2048, 1024, 1024, 5])
        >>> slices = packed_rows(lengths, None, torch.device("cpu"), differentiated=True)
        >>> [lengths[rows].tolist() for rows in slices]
        [[2048], [1024, 1024], [5]]
    """
    check_chunk_size(chunk_size)
    first = 0
    while first < len(lengths):
        size = rows_per_forward(chunk_size, int(lengths[first]), device, differentiated=differentiated)
        yield slice(first, first + size)
        first += size
