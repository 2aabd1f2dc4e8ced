"""Characters, words and tokens: the one place where evidence spans and token masks are mapped to each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

Spans = Sequence[Sequence[int]]  # [begin, end] in characters, end exclusive


def merge_spans(spans: Spans, *, gap: int = 0) -> list[list[int]]:
    """Returns the spans sorted, with empty ones dropped and those at most `gap` characters apart joined."""
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
        ascii_space_only: split on " " alone, for corpora whose tokens contain other white space.
    """
    pattern = r"[^ ]+" if ascii_space_only else r"\S+"
    offsets = [match.span() for match in re.finditer(pattern, text)]
    return np.array(offsets, dtype=np.int64).reshape(-1, 2)


def strip_offsets(offsets: np.ndarray, text: str) -> np.ndarray:
    """Returns offsets [T, 2] without white space at either end of each token.

    SentencePiece and byte-level tokenizers count the space before a word as part of its first token. A token of white
    space only becomes empty.
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
    """Returns bool [T], True where a token shares a visible character with a span.

    Two tokens that share a character (halves of an emoji in byte-level BPE) are both True. A token that shows no
    character (a bare space) takes the value of the next token that does, or of the previous one at the end.

    Args:
        offsets: [T, 2] character offsets into `text`, end exclusive.
        in_text: [T] bool, False at special tokens and tokens of another text; these are always False. None means all
            tokens are of `text`.
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
            neighbor = np.searchsorted(visible, token)
            mask[token] = mask[visible[min(neighbor, len(visible) - 1)]]
    return mask


def runs_from_mask(mask: np.ndarray) -> np.ndarray:
    """Returns [R, 2] begin and exclusive end of the maximal runs of True."""
    padded = np.concatenate([[False], np.asarray(mask, dtype=bool), [False]])
    return np.flatnonzero(padded[1:] != padded[:-1]).reshape(-1, 2)


def spans_from_mask(mask: np.ndarray, offsets: np.ndarray, text: str) -> list[list[int]]:
    """Returns merged character spans, one for each run of True tokens or words."""
    offsets = strip_offsets(offsets, text)
    spans = []
    for begin, end in runs_from_mask(mask):
        run = offsets[begin:end]
        run = run[run[:, 1] > run[:, 0]]
        if len(run):
            spans.append([int(run[:, 0].min()), int(run[:, 1].max())])
    return merge_spans(spans)


def evidence_kept_fraction(spans: Spans, offsets: np.ndarray, text: str) -> float | None:
    """Returns the fraction of the spans' visible characters that lie between the first and the last token.

    The rest was lost to truncation. None if the spans hold no visible character.

    Args:
        offsets: [T, 2] character offsets into `text` of the kept tokens of `text`, without special tokens.
    """
    offsets = np.asarray(offsets).reshape(-1, 2)
    first, last = (int(offsets[:, 0].min()), int(offsets[:, 1].max())) if len(offsets) else (0, 0)
    visible = [
        position for begin, end in merge_spans(spans) for position in range(begin, end) if not text[position].isspace()
    ]
    if not visible:
        return None
    return sum(first <= position < last for position in visible) / len(visible)


def check_spans(spans: Spans, text: str, name: str) -> None:
    """Raises ValueError, which starts with `name`, unless every span lies inside `text` and ends after it begins."""
    for span in spans:
        if len(span) != 2 or not 0 <= span[0] < span[1] <= len(text):
            raise ValueError(
                f"{name}: rationale span {list(span)} is empty or outside the text of {len(text)} characters; "
                "correct or remove it"
            )
