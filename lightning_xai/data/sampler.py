"""Batches of rows of similar length, within a budget of padded tokens, shared out over processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch.distributed
from torch.utils.data import Dataset, DistributedSampler

_BATCHES_PER_BUCKET = 4  # rows mix within a bucket: fewer batches pad less, more batches mix more
_LENGTH_RATIO = 1.15  # a bucket may be longer than that many batches while its lengths stay within this ratio


def bucket_rows(lengths: np.ndarray, batch_size: int, max_tokens: int | None) -> list[tuple[np.ndarray, int]]:
    """Returns (rows, number of batches) of buckets of similar lengths, longest first; they partition the rows.

    The partition does not depend on chance, so every epoch has the same number of batches. Each bucket is large enough
    to mix some batches, and any `ceil(rows / batches)` of its rows obey both limits.
    """
    order = np.argsort(-lengths, kind="stable")
    buckets, begin = [], 0
    while begin < len(order):
        longest = int(lengths[order[begin]])
        capacity = rows_per_batch(longest, batch_size, max_tokens)
        end = min(begin + _BATCHES_PER_BUCKET * capacity, len(order))
        while end < len(order) and lengths[order[end]] * _LENGTH_RATIO >= longest:
            end += 1
        buckets.append((order[begin:end], -(-(end - begin) // capacity)))
        begin = end
    return buckets


def rows_per_batch(longest: int, batch_size: int, max_tokens: int | None) -> int:
    """Returns how many rows fit into a batch whose longest row has `longest` tokens; at least one."""
    return batch_size if max_tokens is None else max(1, min(batch_size, max_tokens // longest))


def evaluation_batches(lengths: np.ndarray, batch_size: int, max_tokens: int | None) -> list[list[int]]:
    """Returns batches of rows sorted by length, longest first, so that too little memory shows at once."""
    order = np.argsort(-lengths, kind="stable").tolist()
    batches, begin = [], 0
    while begin < len(order):
        end = begin + rows_per_batch(int(lengths[order[begin]]), batch_size, max_tokens)
        batches.append(order[begin:end])
        begin = end
    return batches


def training_batches(
    lengths: np.ndarray, batch_size: int, max_tokens: int | None, generator: np.random.Generator
) -> list[list[int]]:
    """Returns random batches of rows of similar length in random order."""
    batches = []
    for rows, num_batches in bucket_rows(lengths, batch_size, max_tokens):
        batches += [part.tolist() for part in np.array_split(generator.permutation(rows), num_batches)]
    return [batches[i] for i in generator.permutation(len(batches))]


def padding_fraction(lengths: np.ndarray, batches: Sequence[Sequence[int]]) -> float:
    """Returns the fraction of padded positions among all positions of the batches."""
    padded = sum(len(rows) * int(lengths[rows].max()) for rows in map(list, batches))
    return 1.0 - sum(int(lengths[list(rows)].sum()) for rows in batches) / max(padded, 1)


class LengthBucketSampler(DistributedSampler):
    """Yields lists of rows, each a batch, to a DataLoader with `batch_size=None`.

    Rank and number of processes are read when iteration starts. All processes get the same number of batches; the
    first ones are repeated where that does not come out even, and whoever evaluates drops repeated examples by index.
    As a DistributedSampler it is left alone by Lightning, which calls `set_epoch` on it.

    Args:
        lengths: [rows] tokens of each row.
        batch_size: most rows of a batch.
        max_tokens: most padded tokens of a batch (rows times the longest); None for no limit. A row that is longer
            than that forms a batch of its own.
        shuffle: mix rows of similar length, and the order of batches, anew every epoch; else sorted by length.
        seed: of the shuffling, together with the epoch.
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
        # the process group may not exist yet, so the true rank is not known here
        super().__init__(dataset, num_replicas=1, rank=0, shuffle=shuffle, seed=seed)
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        if shuffle:
            self._num_batches = sum(count for _, count in bucket_rows(self.lengths, batch_size, max_tokens))
        else:
            self._num_batches = len(evaluation_batches(self.lengths, batch_size, max_tokens))

    def batches(self) -> list[list[int]]:
        """Returns the batches of this epoch, of all processes together, none repeated."""
        if not self.shuffle:
            return evaluation_batches(self.lengths, self.batch_size, self.max_tokens)
        generator = np.random.default_rng((self.seed, self.epoch))
        return training_batches(self.lengths, self.batch_size, self.max_tokens, generator)

    def __iter__(self) -> Iterator[list[int]]:
        rank, world_size = process_rank()
        batches = self.batches()
        for i in range(rank, len(self) * world_size, world_size):
            yield batches[i % len(batches)]

    def __len__(self) -> int:
        return -(-self._num_batches // process_rank()[1])


def process_rank() -> tuple[int, int]:
    """Returns this process's rank and the number of processes; (0, 1) outside a process group."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
