"""Converts spans of characters to token masks, and token masks to spans."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

Spans = Sequence[Sequence[int]]  # [begin, end] in characters, end exclusive


def merge_spans(spans: Spans, *, gap: int = 0) -> list[list[int]]:
    """Returns the non-empty spans in sorted order; spans that are at most `gap` characters apart are joined.

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
        ascii_space_only: whether only " " separates words, for corpora whose words contain other white space.

    Example:
        >>> word_offsets("so good").tolist()
        [[0, 2], [3, 7]]
    """
    pattern = r"[^ ]+" if ascii_space_only else r"\S+"
    offsets = [match.span() for match in re.finditer(pattern, text)]
    return np.array(offsets, dtype=np.int64).reshape(-1, 2)


def strip_offsets(offsets: np.ndarray, text: str) -> np.ndarray:
    """Returns offsets [T, 2] without white space at either end of each token.

    SentencePiece and byte-level tokenizers count the space before a word as part of the word's first token. A token
    that consists of white space becomes empty.

    Example:
        >>> strip_offsets(np.array([[0, 2], [2, 7]]), "so good").tolist()
        [[0, 2], [3, 7]]
    """
    stripped = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    for row, (begin, end) in enumerate(stripped.tolist()):
        piece = text[begin:end]
        if piece and (piece[0].isspace() or piece[-1].isspace()):
            begin += len(piece) - len(piece.lstrip())
            stripped[row] = begin, max(begin, begin + len(piece.strip()))
    return stripped


def token_mask_from_spans(
    spans: Spans, offsets: np.ndarray, text: str, in_text: np.ndarray | None = None
) -> np.ndarray:
    """Returns bool [T], True where a token contains a visible character of a span.

    If two tokens share a character of a span (an emoji in byte-level BPE), both are True. A token without a visible
    character (a space) gets the value of the next visible token, or of the last one if no visible token follows.

    Args:
        spans: [begin, end] in characters, end exclusive.
        offsets: [T, 2] character offsets into `text`, end exclusive.
        text: the text.
        in_text: [T] bool, False at special tokens and at tokens of another text, where the result is False. None means
            that all tokens belong to `text`.

    Example:
        >>> token_mask_from_spans([[3, 5]], word_offsets("so good"), "so good").tolist()
        [False, True]
    """
    offsets = strip_offsets(offsets, text)
    in_text = np.ones(len(offsets), dtype=bool) if in_text is None else np.asarray(in_text, dtype=bool)
    mask = np.zeros(len(offsets), dtype=bool)
    for begin, end in merge_spans(spans):
        mask |= (offsets[:, 0] < end) & (offsets[:, 1] > begin)
    empty = offsets[:, 0] >= offsets[:, 1]
    mask &= in_text & ~empty
    visible = np.flatnonzero(in_text & ~empty)
    if len(visible):
        for token in np.flatnonzero(in_text & empty):
            neighbor = int(np.searchsorted(visible, token))
            mask[token] = mask[visible[min(neighbor, len(visible) - 1)]]
    return mask


def runs_from_mask(mask: np.ndarray) -> np.ndarray:
    """Returns the begin and the exclusive end [R, 2] of every unbroken run of True in `mask` [T].

    Example:
        >>> runs_from_mask(np.array([True, True, False, True])).tolist()
        [[0, 2], [3, 4]]
    """
    padded = np.concatenate([[False], np.asarray(mask, dtype=bool), [False]])
    return np.flatnonzero(padded[1:] != padded[:-1]).reshape(-1, 2)


def spans_from_mask(mask: np.ndarray, offsets: np.ndarray, text: str) -> list[list[int]]:
    """Returns merged character spans, one for each run of tokens (or words) that are True in `mask`.

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


def is_visible(character: str) -> bool:
    """Returns False for spaces, control characters, format characters and accents; True for visible characters.

    Example:
        >>> [is_visible(character) for character in ("a", " ", "\\ufeff", "\\u0301")]
        [True, False, False, False]
    """
    return not character.isspace() and unicodedata.category(character) not in ("Cc", "Cf", "Mn", "Me")


def evidence_kept_fraction(spans: Spans, offsets: np.ndarray, text: str, *, truncated: bool = True) -> float | None:
    """Returns the fraction of the spans' visible characters that lie between the first and the last token.

    The other visible characters were lost to truncation. The result is None if the spans contain no visible character.

    Args:
        spans: [begin, end] in characters, end exclusive.
        offsets: [T, 2] character offsets into `text` of the tokens that were kept, without special tokens.
        text: the text.
        truncated: whether tokens were cut off. If False, characters outside all tokens were dropped by the tokenizer,
            not by truncation, and all evidence counts as kept.

    Example:
        >>> evidence_kept_fraction([[0, 7]], np.array([[0, 2]]), "so good")  # 2 of 6 visible characters
        0.3333333333333333
    """
    offsets = np.asarray(offsets).reshape(-1, 2)
    first, last = (int(offsets[:, 0].min()), int(offsets[:, 1].max())) if len(offsets) else (0, 0)
    visible = [
        position for begin, end in merge_spans(spans) for position in range(begin, end) if is_visible(text[position])
    ]
    if not visible:
        return None
    if not truncated:
        return 1.0
    return sum(first <= position < last for position in visible) / len(visible)


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
                f"{name}: rationale span {list(span)} is empty or outside the text of {len(text)} characters; "
                "correct or remove it"
            )
