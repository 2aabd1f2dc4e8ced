"""Characters as arrays, compared with Python's own functions for strings."""

import sys

import numpy as np

from lightning_xai.functional.text.code_points import (
    are_spaces,
    are_visible,
    code_points,
    is_visible,
    without_spaces,
    words_begun,
)

EVERY = np.arange(sys.maxunicode + 1, dtype=np.uint32)
TEXT = " a\u3000 b\u00e9\t\U0001f600 \ufeffe\u0301\n"


def test_every_character_is_a_space_as_for_strings():
    assert np.flatnonzero(are_spaces(EVERY)).tolist() == [c for c in EVERY.tolist() if chr(c).isspace()]


def test_characters_are_visible_as_one_by_one_also_at_the_second_look():
    codes = code_points(TEXT)
    for _ in range(2):
        assert are_visible(codes).tolist() == [is_visible(character) for character in TEXT]


def test_half_of_a_character_has_a_code_point():
    assert code_points("a\ud83d").tolist() == [97, 0xD83D]


def test_stripping_equals_that_of_strings_for_every_span():
    spans = [(b, e) for b in range(len(TEXT) + 1) for e in range(b, len(TEXT) + 1)]
    stripped = without_spaces(np.array(spans), are_spaces(code_points(TEXT))).tolist()
    for (b, e), (first, last) in zip(spans, stripped, strict=True):
        assert TEXT[first:last] == TEXT[b:e].strip() and b <= first <= last <= e


def test_words_of_joined_texts_are_counted_as_those_of_each():
    texts = ["so good", "", "film", " of  it"]
    begins = np.cumsum([0, *map(len, texts[:-1])])
    begun = words_begun(are_spaces(code_points("".join(texts))), begins)
    ends = np.cumsum(list(map(len, texts)))
    assert [int(begun[end] - begun[begin]) for begin, end in zip(begins, ends, strict=True)] == [2, 0, 1, 2]
