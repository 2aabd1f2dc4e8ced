"""Puts rows of similar length into batches, and divides the batches among processes.

A batch has a limited number of rows and of tokens (padding included).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import torch
from torch.utils.data import Dataset, DistributedSampler

from lightning_xai.runs.small_integers import smallest

# number of batches in a bucket. Rows are shuffled only within their bucket, so large buckets mix more rows; the rows of
# small buckets are more similar in length, so they need less padding
_BATCHES_PER_BUCKET = 4
# a bucket gets all rows that are at least 1/1.15 as long as its longest row, even if they fill more than 4 batches
_LENGTH_RATIO = 1.15


def bucket_rows(lengths: np.ndarray, batch_size: int, max_tokens: int | None) -> list[tuple[np.ndarray, int]]:
    """Divides the rows into buckets of similar lengths. Returns (row numbers, number of batches) for each bucket.

    The buckets with the longest rows come first. The division is not random, so every epoch has the same number of
    batches. The rows of a bucket can be shuffled and then divided into the bucket's number of batches, all of nearly
    equal size. No batch then has more than `batch_size` rows, and only a batch of one row may have more than
    `max_tokens` tokens.

    Example:
        >>> buckets = bucket_rows(np.array([2, 9, 9, 9, 9, 2]), batch_size=1, max_tokens=None)
        >>> [(rows.tolist(), num_batches) for rows, num_batches in buckets]
        [([1, 2, 3, 4], 4), ([0, 5], 2)]
    """
    order = longest_first(lengths)
    ascending = -(lengths[order] * _LENGTH_RATIO)
    buckets, begin = [], 0
    while begin < len(order):
        longest = int(lengths[order[begin]])
        capacity = rows_per_batch(longest, batch_size, max_tokens)
        end = min(begin + _BATCHES_PER_BUCKET * capacity, len(order))
        end = max(end, int(np.searchsorted(ascending, -longest, side="right")))
        buckets.append((order[begin:end], -(-(end - begin) // capacity)))
        begin = end
    return buckets


def longest_first(lengths: np.ndarray) -> np.ndarray:
    """Returns the row numbers [R], sorted by descending length. Rows of equal length stay in their order.

    Example:
        >>> longest_first(np.array([2, 9, 2])).tolist()
        [1, 0, 2]
    """
    return smallest(np.argsort(-lengths, kind="stable"))


def rows_per_batch(longest: int, batch_size: int, max_tokens: int | None) -> int:
    """Returns how many rows, at least 1, fit into a batch whose longest row has `longest` tokens.

    Example:
        >>> rows_per_batch(10, batch_size=8, max_tokens=45), rows_per_batch(99, batch_size=8, max_tokens=45)
        (4, 1)
    """
    return batch_size if max_tokens is None else max(1, min(batch_size, max_tokens // longest))


class Batches(Sequence[list[int]]):
    """Batches of row numbers. The numbers need 4 bytes per row, or 8 if there are more than 2^31 rows.

    Args:
        rows: [R] the row numbers of all batches, one batch after another.
        bounds: [number of batches + 1] batch i has the rows `rows[bounds[i] : bounds[i + 1]]`.
        order: [number of batches] order in which the batches are read; by default, their order in `rows`.

    Example:
        >>> batches = Batches(np.array([3, 1, 2]), np.array([0, 1, 3]), order=np.array([1, 0]))
        >>> list(batches)
        [[1, 2], [3]]
    """

    def __init__(self, rows: np.ndarray, bounds: np.ndarray, order: np.ndarray | None = None) -> None:
        self.rows = rows
        self.bounds = bounds
        self.order = order

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, i: int) -> list[int]: ...
    @overload
    def __getitem__(self, i: slice) -> list[list[int]]: ...
    def __getitem__(self, i: int | slice) -> list[int] | list[list[int]]:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        place = range(len(self))[i] if self.order is None else int(self.order[i])
        rows: list[int] = self.rows[self.bounds[place] : self.bounds[place + 1]].tolist()
        return rows


def evaluation_batches(lengths: np.ndarray, batch_size: int, max_tokens: int | None) -> Batches:
    """Returns batches of rows sorted by length. The longest rows come first, so that a lack of memory shows at once.

    Example:
        >>> list(evaluation_batches(np.array([5, 100, 5]), batch_size=16, max_tokens=50))
        [[1], [0, 2]]
    """
    order = longest_first(lengths)
    bounds = [0]
    while bounds[-1] < len(order):
        size = rows_per_batch(int(lengths[order[bounds[-1]]]), batch_size, max_tokens)
        bounds.append(min(bounds[-1] + size, len(order)))
    return Batches(order, np.array(bounds))


def training_batches(
    lengths: np.ndarray, batch_size: int, max_tokens: int | None, generator: np.random.Generator
) -> Batches:
    """Returns random batches in random order. The rows of a batch have similar lengths.

    Example:
        >>> lengths = np.array([2, 2, 9, 9, 9, 9, 9, 9, 9, 9])
        >>> batches = training_batches(lengths, 2, None, np.random.default_rng(0))
        >>> len(batches), [0, 1] in map(sorted, batches)  # the two short rows are in one batch
        (5, True)
    """
    rows, sizes = [], []
    for bucket, num_batches in bucket_rows(lengths, batch_size, max_tokens):
        rows.append(generator.permutation(bucket))
        smaller, num_larger = divmod(len(bucket), num_batches)  # the same sizes as np.array_split
        sizes += [smaller + 1] * num_larger + [smaller] * (num_batches - num_larger)
    bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    return Batches(np.concatenate(rows), bounds, generator.permutation(len(sizes)))


def padding_fraction(lengths: np.ndarray, batches: Sequence[Sequence[int]]) -> float:
    """Returns the fraction of padding among all tokens of the batches.

    Example:
        >>> padding_fraction(np.array([4, 2]), [[0, 1]])  # 6 tokens in 8 positions
        0.25
    """
    padded = sum(len(rows) * int(lengths[rows].max()) for rows in map(list, batches))
    return 1.0 - sum(int(lengths[list(rows)].sum()) for rows in batches) / max(padded, 1)


class LengthBucketSampler(DistributedSampler):
    """Yields batches, each as a list of row numbers, for a DataLoader with `batch_size=None`.

    The rank and the number of processes are read when iteration starts. All processes get the same number of batches:
    if the batches cannot be divided evenly, the first batches are repeated. Metrics recognize repeated examples by
    their index and count them once. The base class is DistributedSampler, because Lightning replaces samplers of other
    classes if there are several processes. Lightning calls `set_epoch` before every epoch.

    Args:
        dataset: the data set, only passed on to DistributedSampler.
        lengths: [rows] number of tokens of each row.
        batch_size: largest number of rows in a batch.
        max_tokens: largest number of tokens in a batch, padding included (number of rows times length of the longest
            row); None for no limit. A row that exceeds this limit is a batch of its own.
        shuffle: whether every epoch has new random batches of rows of similar length, in random order. Otherwise the
            rows are sorted by length.
        seed: seed of the shuffling, which also depends on the number of the epoch.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> dataset = TensorDataset(torch.zeros(3))
        >>> list(LengthBucketSampler(dataset, [2, 9, 3], batch_size=2))
        [[1, 2], [0]]
    """

    def __init__(
        self,
        dataset: Dataset,
        lengths: Sequence[int] | np.ndarray,
        *,
        batch_size: int,
        max_tokens: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
    ) -> None:
        # num_replicas and rank are placeholders, since the process group may not exist yet. The true numbers are read
        # later, from `_process_rank`
        super().__init__(dataset, num_replicas=1, rank=0, shuffle=shuffle, seed=seed)
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        if shuffle:
            self._num_batches = sum(count for _, count in bucket_rows(self.lengths, batch_size, max_tokens))
        else:
            self._num_batches = len(evaluation_batches(self.lengths, batch_size, max_tokens))

    def batches(self) -> Batches:
        """Returns this epoch's batches for all processes together, without repetitions."""
        if not self.shuffle:
            return evaluation_batches(self.lengths, self.batch_size, self.max_tokens)
        generator = np.random.default_rng((self.seed, self.epoch))
        return training_batches(self.lengths, self.batch_size, self.max_tokens, generator)

    def __iter__(self) -> Iterator[list[int]]:
        rank, world_size = _process_rank()
        batches = self.batches()
        for i in range(rank, len(self) * world_size, world_size):
            yield batches[i % len(batches)]

    def __len__(self) -> int:
        return -(-self._num_batches // _process_rank()[1])


def _process_rank() -> tuple[int, int]:
    """Returns this process's rank and the number of processes; (0, 1) without a process group."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
