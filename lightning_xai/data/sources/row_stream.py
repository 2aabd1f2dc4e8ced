"""Rows that a source yields one at a time, and functions that read rows from such a stream or from a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from datasets import Dataset

READ_AT_ONCE = 256  # number of rows of a data set that are read together
BLOCK_ROWS, BLOCK_CHARACTERS = 4096, 1 << 19  # rows are encoded in blocks; a block ends when it reaches either limit


class RowStream:
    """The rows of one split. Every iteration creates the rows anew, so they are never all in memory.

    Args:
        make: function that returns the rows as dicts. Every call must return the same rows.
        column_names: names of the columns.
        num_rows: number of rows. If None, they are counted when `len` is first called.

    Example:
        >>> stream = RowStream(lambda: ({"text": f"w{i}", "labels": 0, "id": str(i)} for i in range(3)), ["text"])
        >>> len(stream), [row["text"] for row in stream]
        (3, ['w0', 'w1', 'w2'])
    """

    def __init__(
        self, make: Callable[[], Iterable[dict[str, Any]]], column_names: Sequence[str], num_rows: int | None = None
    ) -> None:
        self._make = make
        self.column_names = list(column_names)
        if num_rows is not None:
            self._num_rows = num_rows

    @cached_property
    def _num_rows(self) -> int:
        return sum(1 for _ in self)

    def __len__(self) -> int:
        return self._num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._make())


Rows: TypeAlias = Dataset | RowStream


def read_rows(rows: Rows, index: np.ndarray | None = None) -> Iterator[dict[str, Any]]:
    """Yields the rows as dicts.

    Args:
        rows: the rows of a split.
        index: ascending indices of the rows to yield; None for all rows.

    Example:
        >>> rows = Dataset.from_dict({"text": ["a", "b", "c"]})
        >>> list(read_rows(rows, np.array([0, 2])))
        [{'text': 'a'}, {'text': 'c'}]
    """
    if isinstance(rows, RowStream):
        wanted = None if index is None else np.isin(np.arange(len(rows)), index)
        yield from (row for number, row in enumerate(rows) if wanted is None or wanted[number])
        return
    numbers = np.arange(len(rows)) if index is None else index
    for begin in range(0, len(numbers), READ_AT_ONCE):
        part = numbers[begin : begin + READ_AT_ONCE]
        # reads consecutive rows as a slice, which copies less data than a list of row numbers
        consecutive = len(part) == part[-1] - part[0] + 1
        columns = rows[int(part[0]) : int(part[-1]) + 1] if consecutive else rows[part.tolist()]
        yield from (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))


def blocks_of(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yields the rows in blocks that are small enough to be encoded at once.

    Example:
        >>> [len(block) for block in blocks_of({"text": "good"} for _ in range(5000))]
        [4096, 904]
    """
    block: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        block.append(row)
        size += len(row["text"]) + len(row.get("text_pair") or "")
        if len(block) == BLOCK_ROWS or size >= BLOCK_CHARACTERS:
            yield block
            block, size = [], 0
    if block:
        yield block
