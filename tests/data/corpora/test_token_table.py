"""Flat arrays of tokens: the way there and back, rows taken out of several tables, and encoders that are refused."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from lightning_xai.data.corpora.token_table import TokenTable, take_rows
from lightning_xai.data.vocabulary import VocabularyEncoder

EXAMPLES: list[dict[str, Any]] = [
    {"text": "w1 w2 w3", "rationales": [{"label": 4, "spans": [[0, 2], [6, 8]]}, {"label": 1, "spans": [[3, 5]]}]},
    {"text": "", "text_pair": "w5"},
    {"text": "w1 w2 w3 w4 w5 w6", "rationales": [{"label": 2, "spans": [[15, 17]]}]},
]


def encoded(**options):
    return VocabularyEncoder(words=95, max_length=6, **options).encode_batch(EXAMPLES)


def assert_equal(one, other):
    for name in (field.name for field in fields(one)):
        left, right = getattr(one, name), getattr(other, name)
        if name == "rationales":
            assert {k: v.tolist() for k, v in left.items()} == {k: v.tolist() for k, v in right.items()}
        elif isinstance(left, np.ndarray):
            assert (left.dtype, left.tolist()) == (right.dtype, right.tolist()), name
        else:
            assert left == right, name


@pytest.mark.parametrize("options", [{}, {"explain_pair": False}, {"fill": "pad"}])
def test_examples_come_back_as_they_were(options):
    table = TokenTable.of(encoded(**options))
    for row, example in enumerate(encoded(**options)):
        assert_equal(table.encoded(row), example)
    assert encoded()[2].evidence_cut == {2: 1} and encoded()[0].rationales.keys() == {1, 4}


def test_examples_without_types_come_back_without_them():
    bare = [replace(example, token_type_ids=None) for example in encoded()]
    assert TokenTable.of(bare).encoded(0).token_type_ids is None


def test_rows_are_taken_from_several_tables():
    one, other = TokenTable.of(encoded()), TokenTable.of(encoded()[:1])
    taken = take_rows([one, other, one], [2, 0, 1])
    wanted = TokenTable.of([encoded()[row] for row in (2, 0, 1)])
    for name in ("bounds", "input_ids", "word_ids", "flags", "run_bounds", "runs", "cut_bounds", "cut", "truncated"):
        np.testing.assert_array_equal(getattr(taken, name), getattr(wanted, name), err_msg=name)


def test_a_baseline_of_several_fill_tokens_is_refused():
    example = encoded()[0]
    odd = replace(example, baseline_ids=np.where(example.word_ids == 1, 7, example.baseline_ids))
    with pytest.raises(ValueError, match="must be the same fill token wherever token_mask is True"):
        TokenTable.of([odd])


def test_a_token_type_that_needs_too_many_bits_is_refused():
    example = encoded()[0]
    with pytest.raises(ValueError, match="token type 40 cannot be stored: the encoder may have at most 16 token types"):
        TokenTable.of([replace(example, token_type_ids=np.full(len(example), 40, dtype=np.int8))])
