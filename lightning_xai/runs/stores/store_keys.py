"""The keys (example index, class) of a store's rows, as sorted arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightning_xai.runs.small_integers import smallest


def bounds_of_shards(entries: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the number of rows before each shard, followed by the total number, as an array [shards + 1].

    Args:
        entries: for each shard, its index entries, one for each row.

    Example:
        >>> bounds_of_shards([np.zeros(2), np.zeros(3)]).tolist()
        [0, 2, 5]
    """
    return np.concatenate([[0], np.cumsum([len(part) for part in entries], dtype=np.int64)])


def sorted_keys(entries: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the N distinct keys, sorted, as three arrays [N]: example index, class (target), and place of the row.

    The place counts rows from 0 over all shards. If several rows have the same key, the place of the first row is
    returned. Each array takes 4 bytes per row, or 8 if its values do not fit into 4. If all targets are the same,
    their array takes no memory.

    Args:
        entries: for each shard, its index entries of dtype ROW.

    Example:
        >>> from lightning_xai.runs.stores.store_shards import ROW
        >>> rows = np.array([(7, 0, 0, 3), (2, 0, 3, 1)], dtype=ROW)
        >>> [part.tolist() for part in sorted_keys([rows])]
        [[2, 7], [0, 0], [1, 0]]
    """
    index = smallest(np.concatenate([*(part["index"] for part in entries), np.zeros(0, np.int64)]))
    target = smallest(np.concatenate([*(part["target"] for part in entries), np.zeros(0, np.int64)]))
    place = smallest(np.lexsort((target, index)))  # the sort is stable: of equal keys, the first row stays first
    index, target = index[place], target[place]
    is_first = np.ones(len(index), dtype=bool)
    is_first[1:] = (np.diff(index) != 0) | (np.diff(target) != 0)
    if not is_first.all():
        index, target, place = index[is_first], target[is_first], place[is_first]
    if len(target) and (target == target[0]).all():
        target = np.broadcast_to(target[:1].copy(), target.shape)
    return index, target, place
