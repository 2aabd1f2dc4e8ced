"""Keys of stores as sorted arrays: few bytes a row, and the first of equal keys."""

import numpy as np
import pytest

from lightning_xai.runs.stores.store import RaggedStore, RaggedWriter
from lightning_xai.runs.stores.store_keys import bounds_of_shards, sorted_keys
from lightning_xai.runs.stores.store_shards import ROW


def entries(index, target):
    rows = np.zeros(len(index), ROW)
    rows["index"], rows["target"] = index, target
    return rows


def bytes_of(values):
    return 0 if values.strides == (0,) else values.nbytes


@pytest.mark.parametrize(("num_classes", "expected"), [(1, 8), (50, 12)])
def test_a_row_needs_at_most_16_bytes(num_classes, expected):
    generator = np.random.default_rng(0)
    index, target = generator.permutation(3000), generator.integers(0, num_classes, 3000)
    keys = sorted_keys([entries(index[:1000], target[:1000]), entries(index[1000:], target[1000:])])
    assert sum(map(bytes_of, keys)) == 3000 * expected
    assert keys[0].tolist() == list(range(3000))
    assert np.array_equal(index[keys[2]], keys[0]) and np.array_equal(target[keys[2]], keys[1])


def test_large_numbers_are_kept_whole(tmp_path):
    rows = [(1 << 40, 2), (-3, 1 << 35), (5, 0)]
    with RaggedWriter(tmp_path) as writer:
        for number, (index, target) in enumerate(rows):
            writer.add(index, target, np.array([number]))
    store = RaggedStore(tmp_path)
    assert store.keys() == sorted(rows) and store.examples.tolist() == [-3, 5, 1 << 40]
    assert [store.get(*key).tolist() for key in rows] == [[0.0], [1.0], [2.0]]


def test_an_index_beyond_those_stored_is_not_found(tmp_path):
    with RaggedWriter(tmp_path) as writer:
        writer.add(2**31 - 1, 0, np.ones(1))
    store = RaggedStore(tmp_path)
    assert (2**31 - 1, 0) in store
    assert not any(key in store for key in [(1 << 40, 0), (-(1 << 40), 0), (0, 0), (2**31 - 1, 1 << 40)])


def test_shards_without_rows_are_passed_over():
    keys = sorted_keys([entries([], []), entries([4], [0]), entries([], []), entries([4, 1], [0, 0])])
    assert [part.tolist() for part in keys] == [[1, 4], [0, 0], [2, 0]]
    assert bounds_of_shards([entries([], []), entries([4], [0])]).tolist() == [0, 0, 1]
