"""The strongest words of an explanation."""

import numpy as np
import pytest

from lightning_xai.report.heatmap import ExplainedDocument
from lightning_xai.report.strongest import ScoredWord, bar_lines, strongest_words, words_of


def document(text: str, offsets: list[list[int]]) -> ExplainedDocument:
    return ExplainedDocument("text 0", text, np.array(offsets), [])


@pytest.mark.parametrize(
    ("text", "offsets", "words"),
    [
        ("unbelievable plot", [[0, 2], [2, 12], [13, 17]], [(0, 1), (2,)]),
        ("well-known", [[0, 4], [4, 5], [5, 10]], [(0,), (1,), (2,)]),
        ("e\u0301t", [[0, 1], [1, 2], [2, 3]], [(0, 1, 2)]),
        ("\u4f60\u597d", [[0, 1], [1, 2]], [(0,), (1,)]),
        ("a", [[0, 0], [0, 1], [0, 0]], [(1,)]),
        ("\U0001f600", [[0, 1], [0, 1]], [(0, 1)]),  # its bytes are two tokens
        ("\U0001f44d\U0001f3fd!", [[0, 1], [1, 2], [2, 3]], [(0, 1), (2,)]),  # with a color of skin
        ("\U0001f1e9\U0001f1ea", [[0, 1], [1, 2]], [(0, 1)]),  # the two letters of a flag
        ("\u0925\u0940 \u0905", [[0, 1], [1, 2], [3, 4]], [(0, 1), (2,)]),  # a vowel sign of Devanagari
        ("\u091a\u094d\u091b", [[0, 2], [2, 3]], [(0, 1)]),  # joined consonants
    ],
)
def test_tokens_of_one_word_are_joined(text, offsets, words):
    assert words_of(document(text, offsets)) == words


def test_a_word_has_the_sum_of_its_tokens_and_the_largest_come_first():
    shown = document("unfair plot so", [[0, 2], [2, 6], [7, 11], [12, 14]])
    strongest = strongest_words(shown, np.array([-2.0, -1.5, 3.0, 0.0]))
    assert [(word.text, word.score) for word in strongest] == [("unfair", -3.5), ("plot", 3.0)]


def test_number_of_words_is_limited():
    shown = document("a b c", [[0, 1], [2, 3], [4, 5]])
    assert len(strongest_words(shown, np.array([1.0, 2.0, 3.0]), number=2)) == 2


def test_magnitudes_have_no_plus_and_no_escape_codes():
    (line,) = bar_lines([ScoredWord("a\x1b[2J", 1.5, (0,))], has_sign=False)
    assert line.split() == ["1.5", "#" * 20, "a", "[2J"]


def test_a_word_without_a_visible_character_is_named_by_its_number():
    (word,) = strongest_words(document("\u202ea", [[0, 1]]), np.array([1.0]))
    assert word.text == "U+202E"
