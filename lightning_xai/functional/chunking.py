"""How many rows go through a network at once: enough to keep the device busy, not so many that they cost more each."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, device

# tokens of one forward pass. A processor is slower per token with more, as activations leave its cache; an accelerator
# idles with fewer. A pass that is differentiated keeps its activations: 8,192 tokens of a base-size encoder, 4 GB
_DIFFERENTIATED = {"cpu": 2**11, "accelerator": 2**13}
_EVALUATED = {"cpu": 2**12, "accelerator": 2**15}


def check_chunk_size(chunk_size: int | None) -> None:
    """Raises ValueError unless `chunk_size` is a number of rows or None."""
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}: give a number of rows from 1, or null for what suits the device")


def rows_per_forward(chunk_size: int | None, num_tokens: int, where: device, *, differentiated: bool) -> int:
    """Returns how many rows of `num_tokens` one forward pass takes: what suits the device, at most `chunk_size`."""
    tokens = (_DIFFERENTIATED if differentiated else _EVALUATED)["cpu" if where.type == "cpu" else "accelerator"]
    fitting = max(tokens // max(num_tokens, 1), 1)
    return fitting if chunk_size is None else min(chunk_size, fitting)


def even_slices(number: int, most: int) -> Iterator[slice]:
    """Yields the fewest slices of at most `most` that cover `number` rows, whose sizes differ by at most one."""
    pieces = -(-number // most)
    for piece in range(pieces):
        yield slice(number * piece // pieces, number * (piece + 1) // pieces)


def packed_rows(lengths: Tensor, chunk_size: int | None, where: device, *, differentiated: bool) -> Iterator[slice]:
    """Yields slices that cover rows with `lengths` [R] in tokens, longest first, one slice for each forward pass."""
    check_chunk_size(chunk_size)
    first = 0
    while first < len(lengths):
        size = rows_per_forward(chunk_size, int(lengths[first]), where, differentiated=differentiated)
        yield slice(first, first + size)
        first += size
