"""The offsets of truncated tokens, against a loop over the tokens."""

import numpy as np
import pytest

from lightning_xai.data.corpora.token_columns import evidence_columns, lost_offsets
from lightning_xai.data.vocabulary import VocabularyEncoder

WORDS = VocabularyEncoder(words=95).tokenizer


@pytest.mark.parametrize("pair", [None, "w7 w8 w9 w10 w11"])
@pytest.mark.parametrize("max_length", [4, 5, 7, 30])
def test_lost_tokens_are_those_that_a_loop_finds(pair, max_length):
    text = "w1  w2 w3 w1\tw4 w5"
    pairs = None if pair is None else [pair]
    overflowing = WORDS([text], pairs, truncation="longest_first", max_length=max_length).encodings[0].overflowing
    wanted = {
        offset
        for part in overflowing
        for offset, special, sequence in zip(part.offsets, part.special_tokens_mask, part.sequence_ids, strict=True)
        if not special and sequence == 0
    }
    assert list(map(tuple, lost_offsets(overflowing, text).tolist())) == sorted(wanted)
    assert bool(wanted) == (max_length < 30)


def test_a_lost_token_in_two_rationales_of_a_class_counts_once():
    rationales = [{"label": 1, "spans": [[9, 11]]}, {"label": 1, "spans": [[9, 11], [12, 14]]}]
    examples = [{"text": "a good so it is", "rationales": rationales}]
    kept, lost = np.array([[0, 1], [2, 6]]), [np.array([[9, 11], [12, 14]])]
    columns = evidence_columns(examples, np.array([0, 2]), kept, np.array([True, True]), np.array([True]), lost)
    assert columns["cut"].tolist() == [[1, 2]]
