"""The strongest words of an explanation (those with the largest absolute scores), and how they are shown as bars."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lightning_xai.report.characters import cluster_bounds, printable
from lightning_xai.report.heatmap import ExplainedDocument

NUM_STRONGEST = 5
BAR_WIDTH = 20


class ScoredWord(NamedTuple):
    """A word of a text, with the sum of its tokens' scores.

    Attributes:
        text: the characters of the word.
        score: sum of the scores of the word's tokens.
        tokens: indices of the word's tokens in the document.

    Example:
        >>> ScoredWord("fine", 2.0, (1,)).score
        2.0
    """

    text: str
    score: float
    tokens: tuple[int, ...]


def words_of(document: ExplainedDocument) -> list[tuple[int, ...]]:
    """Returns the token indices of each word of a document. Special tokens belong to no word.

    A token continues the preceding word if it starts inside a character, such as an emoji, or between two characters
    that are letters, digits or combining marks. But if it starts with a Chinese, Japanese or Korean character, it
    starts a new word.

    Example:
        >>> offsets = np.array([[0, 0], [0, 2], [2, 4], [4, 5]])
        >>> words_of(ExplainedDocument("text 0", "good!", offsets, []))
        [(1, 2), (3,)]
    """
    words: list[list[int]] = []
    last_end = 0
    bounds = frozenset(cluster_bounds(document.text))
    for token, (begin, end) in enumerate(document.offsets.tolist()):
        if end <= begin:
            continue
        inside = begin < last_end or begin not in bounds
        if words and begin <= last_end and (inside or _continues(document.text, begin)):
            words[-1].append(token)
        else:
            words.append([token])
        last_end = max(last_end, end)
    return [tuple(word) for word in words]


def _continues(text: str, position: int) -> bool:
    before, after = text[position - 1 : position], text[position : position + 1]
    is_wide = unicodedata.east_asian_width(after) in "WF" if after else False
    return _is_of_a_word(before) and _is_of_a_word(after) and not is_wide


def _is_of_a_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character or " ").startswith("M")  # M is a combining mark


def _visible(text: str) -> str:
    """Returns a text or, if all its characters are invisible, their Unicode code points."""
    is_seen = any(c.isprintable() and not c.isspace() for c in text)
    return text if is_seen else " ".join(f"U+{ord(c):04X}" for c in text)


def strongest_words(document: ExplainedDocument, scores: np.ndarray, number: int = NUM_STRONGEST) -> list[ScoredWord]:
    """Returns the `number` words with the largest absolute scores, largest first. Words with score 0 are left out.

    Args:
        document: a text with its tokens.
        scores: [T] scores of the tokens.
        number: largest number of words to return.

    Example:
        >>> document = ExplainedDocument("text 0", "fine plot", np.array([[0, 4], [5, 9]]), [])
        >>> strongest_words(document, np.array([1.0, -2.0]))
        [ScoredWord(text='plot', score=-2.0, tokens=(1,)), ScoredWord(text='fine', score=1.0, tokens=(0,))]
    """
    words = []
    for tokens in words_of(document):
        begin, end = document.offsets[tokens[0]][0], max(document.offsets[token][1] for token in tokens)
        words.append(ScoredWord(_visible(document.text[begin:end]), float(sum(scores[t] for t in tokens)), tokens))
    ranked = sorted((word for word in words if word.score), key=lambda word: -abs(word.score))
    return ranked[:number]


def bar_lines(words: Sequence[ScoredWord], *, has_sign: bool) -> list[str]:
    """Returns one line for each word: the score, a bar proportional to the absolute score, and the word.

    Example:
        >>> words = [ScoredWord("plot", -2.0, (1,)), ScoredWord("fine", 1.0, (0,))]
        >>> print(*bar_lines(words, has_sign=True), sep="\\n")
                -2  ####################  plot
                +1  ##########            fine
    """
    largest = max((abs(word.score) for word in words), default=1.0)
    lines = []
    for word in words:
        number = f"{word.score:+.3g}" if has_sign else f"{word.score:.3g}"
        bar = "#" * max(round(BAR_WIDTH * abs(word.score) / largest), 1)
        lines.append(f"{number:>10}  {bar:<{BAR_WIDTH}}  {printable(word.text)}")
    return lines
