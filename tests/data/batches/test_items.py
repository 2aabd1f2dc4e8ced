"""Several examples in flat arrays behave as a list of examples."""

import numpy as np
import pytest

from lightning_xai.data.batches.items import Item, Items
from lightning_xai.data.vocabulary import VocabularyEncoder

ENCODER = VocabularyEncoder(words=95)
ITEMS = [Item(index, ENCODER.encode({"text": text}), labels=label) for index, text, label in
         [(7, "w1", 1), (3, "w2 w3", 0), (9, "w4 w5 w6", 1)]]  # fmt: skip


def test_each_example_comes_back_whole():
    items = Items.of(ITEMS)
    assert len(items) == 3 and items.indices.tolist() == [7, 3, 9]
    for item, expected in zip(items, ITEMS, strict=True):
        assert (item.index, item.labels) == (expected.index, expected.labels)
        np.testing.assert_array_equal(item.encoded.input_ids, expected.encoded.input_ids)
        np.testing.assert_array_equal(item.encoded.offsets, expected.encoded.offsets)


def test_slices_and_negative_positions_are_those_of_a_list():
    items = Items.of(ITEMS)
    assert [item.index for item in items[1:]] == [3, 9] and [item.index for item in items[::-1]] == [9, 3, 7]
    assert items[-1].index == 9
    with pytest.raises(IndexError):
        items[3]


def test_flat_examples_stay_as_they_are():
    items = Items.of(ITEMS)
    assert Items.of(items) is items
