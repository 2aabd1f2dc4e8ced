"""The tokenized examples of a split: their places and their hash."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from lightning_xai.data.corpora.cache import write_corpus
from lightning_xai.data.corpora.encoded_split import EncodedSplit
from lightning_xai.data.vocabulary import VocabularyEncoder

EXAMPLES = [{"text": "w1 w2", "labels": 0}, {"text": "w3", "labels": 1}, {"text": "w4 w5 w6", "labels": 0}]


def split(examples=EXAMPLES, index=(2, 5, 9)) -> EncodedSplit:
    folder = Path(tempfile.mkdtemp(), "corpus")
    return EncodedSplit(write_corpus(folder, examples, VocabularyEncoder(words=95), index=np.array(index)))


def test_items_carry_the_index_and_the_labels_of_their_example():
    assert [(item.index, item.labels) for item in split()[[2, 0]]] == [(9, 0), (2, 0)]


def test_one_position_gives_a_batch_of_one():
    assert [item.index for item in split()[1]] == [5]


def test_index_that_was_left_out_is_refused():
    with pytest.raises(ValueError, match="example with index 3 is not in this split"):
        split().position(3)


def test_positions_in_a_part_of_a_corpus():
    part = EncodedSplit(split().corpus, np.array([5, 9]))
    assert [part.position(index) for index in (5, 9)] == [0, 1]
    for left_out in (2, 3, 10):
        with pytest.raises(ValueError, match=f"example with index {left_out} is not in this split"):
            part.position(left_out)


def test_hash_follows_the_tokens_and_the_indices():
    hashes = {split().hash(), split(EXAMPLES[::-1]).hash(), split(index=(2, 5, 8)).hash()}
    assert len(hashes) == 3 and split().hash() in hashes


def test_summary_of_a_split_without_evidence():
    facts = split().summary()
    assert facts == {
        "examples": 3, "mean_tokens": 4.0, "truncated_fraction": 0.0, "evidence_kept_fraction": None,
    }  # fmt: skip
