"""Converts character spans to token masks, and token masks to character spans."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from lightning_xai.functional.text.code_points import are_spaces, are_visible, code_points, without_spaces
from lightning_xai.functional.text.quantity import quantity

Spans = Sequence[Sequence[int]]  # [start, end] in characters, end exclusive


def merge_spans(spans: Spans, *, gap: int = 0) -> list[list[int]]:
    """Returns the non-empty spans, sorted, after joining spans that are at most `gap` characters apart.

    Example:
        >>> merge_spans([[5, 9], [0, 2], [3, 4]], gap=1)
        [[0, 9]]
    """
    merged: list[list[int]] = []
    for begin, end in sorted((int(begin), int(end)) for begin, end in spans if end > begin):
        if merged and begin <= merged[-1][1] + gap:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def word_offsets(text: str, *, ascii_space_only: bool = False) -> np.ndarray:
    """Returns character offsets [W, 2] of the whitespace-separated words of `text`.

    Args:
        text: any text.
        ascii_space_only: whether only the character " " separates words. Use True if words contain other white space.

    Example:
        >>> word_offsets("so good").tolist()
        [[0, 2], [3, 7]]
    """
    pattern = r"[^ ]+" if ascii_space_only else r"\S+"
    offsets = [match.span() for match in re.finditer(pattern, text)]
    return np.array(offsets, dtype=np.int64).reshape(-1, 2)


def strip_offsets(offsets: np.ndarray, text: str) -> np.ndarray:
    """Returns offsets [T, 2] that exclude white space at either end of a token.

    SentencePiece and byte-level tokenizers count the space before a word as part of the word's first token. For a token
    that consists of white space, start and end become equal.

    Example:
        >>> strip_offsets(np.array([[0, 2], [2, 7]]), "so good").tolist()
        [[0, 2], [3, 7]]
    """
    return without_spaces(offsets, are_spaces(code_points(text)))


def marked_tokens(spans: Spans, offsets: np.ndarray, in_text: np.ndarray) -> np.ndarray:
    """Returns [T] bool, True where a token shares a character with a span.

    If a character of a span belongs to several tokens (such as an emoji in byte-level BPE), the result is True for all
    of them. An empty token (white space, whose start and end are equal) gets the value of the next token that is not
    empty. If no such token follows, the empty token gets the value of the last token that is not empty.

    Args:
        spans: [start, end] in characters, end exclusive.
        offsets: [T, 2] character offsets that exclude white space at either end of a token, from `strip_offsets`.
        in_text: [T] bool, False at special tokens and at tokens of another text. There, the result is False.

    Example:
        >>> marked_tokens([[3, 5]], np.array([[0, 2], [3, 7]]), np.array([True, True])).tolist()
        [False, True]
    """
    mask = np.zeros(len(offsets), dtype=bool)
    for begin, end in merge_spans(spans):
        mask |= (offsets[:, 0] < end) & (offsets[:, 1] > begin)
    is_empty = offsets[:, 0] >= offsets[:, 1]
    mask &= in_text & ~is_empty
    visible, empty = np.flatnonzero(in_text & ~is_empty), np.flatnonzero(in_text & is_empty)
    if len(visible) and len(empty):
        mask[empty] = mask[visible[np.minimum(np.searchsorted(visible, empty), len(visible) - 1)]]
    return mask


def runs_from_mask(mask: np.ndarray) -> np.ndarray:
    """Returns the start and the exclusive end [R, 2] of every run of consecutive True values in `mask` [T].

    Example:
        >>> runs_from_mask(np.array([True, True, False, True])).tolist()
        [[0, 2], [3, 4]]
    """
    padded = np.concatenate([[False], np.asarray(mask, dtype=bool), [False]])
    return np.flatnonzero(padded[1:] != padded[:-1]).reshape(-1, 2)


def spans_from_mask(mask: np.ndarray, offsets: np.ndarray, text: str) -> list[list[int]]:
    """Returns merged character spans, one for each run of consecutive tokens (or words) that are True in `mask`.

    Args:
        mask: [T] bool.
        offsets: [T, 2] character offsets of the tokens or words in `text`.
        text: the text.

    Example:
        >>> spans_from_mask(np.array([False, True]), word_offsets("so good"), "so good")
        [[3, 7]]
    """
    offsets = strip_offsets(offsets, text)
    spans = []
    for begin, end in runs_from_mask(mask):
        run = offsets[begin:end]
        run = run[run[:, 1] > run[:, 0]]
        if len(run):
            spans.append([int(run[:, 0].min()), int(run[:, 1].max())])
    return merge_spans(spans)


def evidence_kept_fraction(spans: Spans, offsets: np.ndarray, text: str, *, truncated: bool = True) -> float | None:
    """Returns the fraction of the spans' visible characters that remain after the text was truncated.

    All characters from the first to the last remaining token count as remaining. The result is None if the spans
    contain no visible character.

    Args:
        spans: [start, end] in characters, end exclusive.
        offsets: [T, 2] character offsets in `text` of the remaining tokens, without special tokens.
        text: the text.
        truncated: whether truncation removed tokens. If False, only the tokenizer can have dropped the characters that
            are in no token, so all evidence counts as kept.

    Example:
        >>> evidence_kept_fraction([[0, 7]], np.array([[0, 2]]), "so good")  # 2 of 6 visible characters
        0.3333333333333333
    """
    offsets = np.asarray(offsets).reshape(-1, 2)
    first, last = (int(offsets[:, 0].min()), int(offsets[:, 1].max())) if len(offsets) else (0, 0)
    total = kept = 0
    for begin, end in merge_spans(spans):
        visible = are_visible(code_points(text[begin:end]))
        total += int(visible.sum())
        kept += int(visible[max(first - begin, 0) : max(last - begin, 0)].sum())
    if not total:
        return None
    return kept / total if truncated else 1.0


def check_spans(spans: Spans, text: str, name: str) -> None:
    """Checks that every span lies inside `text` and ends after it begins.

    Raises:
        ValueError: a span is empty or outside `text`; the message starts with `name`.

    Example:
        >>> check_spans([[0, 9]], "so good", "row 3")
        Traceback (most recent call last):
        ValueError: row 3: rationale span [0, 9] is empty or outside the text of 7 characters; correct or remove it
    """
    for span in spans:
        if len(span) != 2 or not 0 <= span[0] < span[1] <= len(text):
            raise ValueError(
                f"{name}: rationale span {list(span)} is empty or outside the text of "
                f"{quantity(len(text), 'character')}; correct or remove it"
            )
