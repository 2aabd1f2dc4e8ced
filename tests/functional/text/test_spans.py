"""Spans, words and tokens: cases worked out by hand, a brute force over characters, and round trips."""

import numpy as np
import pytest

from lightning_xai.functional.text.spans import (
    check_spans,
    evidence_kept_fraction,
    marked_tokens,
    merge_spans,
    runs_from_mask,
    spans_from_mask,
    strip_offsets,
    word_offsets,
)


def mask(spans, offsets, text, in_text=None):
    in_text = np.ones(len(offsets), dtype=bool) if in_text is None else np.asarray(in_text, dtype=bool)
    return marked_tokens(spans, strip_offsets(np.array(offsets), text), in_text).tolist()


def test_overlapping_and_touching_spans_are_merged_and_empty_ones_dropped():
    assert merge_spans([[5, 9], [0, 2], [8, 12], [2, 4], [20, 20]]) == [[0, 4], [5, 12]]


def test_spans_within_the_gap_are_joined():
    assert merge_spans([[0, 2], [3, 4], [6, 7]], gap=1) == [[0, 4], [6, 7]]


def test_words_are_between_white_space():
    assert word_offsets(" a  bc\nd").tolist() == [[1, 2], [4, 6], [7, 8]]


def test_no_break_space_stays_in_a_word_if_only_ascii_space_separates():
    assert word_offsets("1\u00a01/2 x", ascii_space_only=True).tolist() == [[0, 5], [6, 7]]


def test_text_without_words_has_no_offsets():
    assert word_offsets("  ").shape == (0, 2)


def test_leading_space_of_a_token_is_stripped():
    assert strip_offsets(np.array([[0, 2], [2, 5], [5, 6]]), "ab cd ").tolist() == [[0, 2], [3, 5], [6, 6]]


def test_token_is_marked_if_it_shares_any_character():
    assert mask([[1, 4]], [[0, 2], [2, 3], [4, 6]], "abcdef") == [True, True, False]


def test_space_before_a_word_is_no_overlap():
    # the span ends with the space that the second token swallows
    assert mask([[0, 3]], [[0, 2], [2, 5]], "ab cd") == [True, False]


def test_tokens_that_share_a_character_are_both_marked():
    # byte-level halves of an emoji
    assert mask([[1, 2]], [[0, 1], [1, 2], [1, 2], [2, 3]], "a\U0001f600b") == [False, True, True, False]


def test_bare_space_takes_the_value_of_the_next_token():
    assert mask([[2, 3]], [[0, 1], [1, 2], [2, 3]], "a b") == [False, True, True]


def test_bare_space_at_the_end_takes_the_value_of_the_last_token():
    assert mask([[0, 1]], [[0, 1], [1, 2]], "a ") == [True, True]


def test_special_tokens_and_the_pair_are_never_marked():
    offsets = [[0, 0], [0, 1], [0, 0], [0, 1], [0, 0]]
    in_text = np.array([False, True, False, False, False])
    assert mask([[0, 1]], offsets, "a", in_text) == [False, True, False, False, False]


@pytest.mark.parametrize("spans", [[], [[1, 1]]])
def test_no_evidence_marks_nothing(spans):
    assert mask(spans, [[0, 1], [1, 2]], "ab") == [False, False]


def test_text_without_tokens_gives_an_empty_mask():
    assert mask([[0, 1]], np.zeros((0, 2)), "a") == []


def test_mask_equals_a_brute_force_over_characters():
    generator = np.random.default_rng(0)
    for _ in range(50):
        text = "".join(generator.choice(list("ab \u00e9\U0001f600"), size=20))
        cuts = np.sort(generator.choice(np.arange(1, 20), size=6, replace=False))
        offsets = np.stack([np.r_[0, cuts], np.r_[cuts, 20]], axis=1)
        offsets = offsets[[bool(text[b:e].strip()) for b, e in offsets]]
        spans = np.sort(generator.integers(0, 21, size=(3, 2)), axis=1).tolist()
        marked = {c for b, e in spans for c in range(b, e)}
        # inside a token, white space counts; at its ends it does not
        stripped = [(b + len(text[b:e]) - len(text[b:e].lstrip()), b + len(text[b:e].rstrip())) for b, e in offsets]
        assert mask(spans, offsets, text) == [any(c in marked for c in range(b, e)) for b, e in stripped]


def test_runs_of_a_mask():
    assert runs_from_mask(np.array([True, True, False, True])).tolist() == [[0, 2], [3, 4]]


def test_spans_of_a_mask_cover_each_run_from_first_to_last_character():
    offsets = np.array([[0, 2], [2, 5], [5, 8], [8, 10]])
    assert spans_from_mask(np.array([False, True, False, True]), offsets, "ab cd ef g") == [[3, 5], [9, 10]]


def test_word_mask_survives_the_way_to_spans_and_back():
    text = "a bb  ccc d e"
    words = word_offsets(text)
    for bits in range(2 ** len(words)):
        wanted = np.array([bool(bits >> i & 1) for i in range(len(words))])
        assert mask(spans_from_mask(wanted, words, text), words, text) == wanted.tolist()


def test_kept_fraction_counts_visible_characters_before_the_cut():
    # "cd" is kept, "e" of "ef" is kept, "f" is lost; the space does not count
    assert evidence_kept_fraction([[3, 8]], np.array([[0, 2], [3, 5], [6, 7]]), "ab cd ef") == 3 / 4


def test_kept_fraction_is_zero_if_no_token_is_left():
    assert evidence_kept_fraction([[0, 1]], np.zeros((0, 2)), "a") == 0.0


@pytest.mark.parametrize("spans", [[], [[2, 3]]])
def test_kept_fraction_is_undefined_without_visible_evidence(spans):
    assert evidence_kept_fraction(spans, np.array([[0, 2]]), "ab c") is None


@pytest.mark.parametrize("span", [[-1, 2], [1, 4], [2, 1], [1, 1], [1]])
def test_span_outside_the_text_is_refused_by_name(span):
    with pytest.raises(ValueError, match="row 7.*outside"):
        check_spans([span], "abc", "row 7")


@pytest.mark.parametrize("text", ["\ufeffgood", "goode\u0301", "good\x07", "\u202egood\u202c", "good\u200d"])
def test_characters_that_are_not_drawn_are_no_lost_evidence(text):
    begin = text.index("good")
    offsets = np.array([[begin, begin + 4 + text.startswith("goode")]])
    assert evidence_kept_fraction([[0, len(text)]], offsets, text) == 1.0


def test_without_truncation_all_evidence_is_kept():
    assert evidence_kept_fraction([[0, 6]], np.array([[0, 4]]), "good \ufffd", truncated=False) == 1.0
    assert evidence_kept_fraction([[4, 5]], np.array([[0, 4]]), "good \ufffd", truncated=False) is None
