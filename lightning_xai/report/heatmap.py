"""Heatmaps: a text is cut into pieces, one for each token, and each token's score becomes a color.

The same pieces are drawn on a page (`heatmap_page`), on an image (`heatmap_image`) and on a terminal. The pieces are
cut from the source text, not decoded from tokens, so that a reader sees every character.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.report.characters import cluster_bounds, printable

Color = tuple[int, int, int]  # red, green and blue from 0 to 255

SUPPORTS, OPPOSES, MAGNITUDE, EVIDENCE = (215, 84, 39), (49, 104, 189), (122, 72, 168), (0, 128, 60)
MAX_STRENGTH = 0.85  # fraction of the pure color in the background of the strongest scores; black text stays legible
MIN_TERMINAL_SCORE = 0.05  # smaller relative scores get no color in the terminal
# in the terminal, a relative score below this value colors only the letters of its token, because a pale background
# would stand out on a dark terminal
MIN_BACKGROUND_SCORE = 0.3


@dataclass(frozen=True)
class ExplainedClass:
    """One explained class of a document, with the scores of every method.

    Attributes:
        name: name of the class.
        probability: predicted probability, from 0 to 1.
        gold: whether the class is a label of the document; None if the labels are unknown.
        predicted: whether the network predicts the class.
        scores: name of a method -> [T] scores of the tokens.
        spans: human evidence, as pairs (begin, end) of character offsets.
        magnitudes: names of the methods whose scores have no sign.
        probability_without: name of a method -> probability of the class if the method's strongest words are deleted.

    Example:
        >>> positive = ExplainedClass("positive", 0.75, gold=True, predicted=True, scores={"ig": np.array([4.0, -1.0])})
        >>> positive.spans
        []
    """

    name: str
    probability: float
    gold: bool | None
    predicted: bool
    scores: dict[str, np.ndarray]
    spans: list[tuple[int, int]] = field(default_factory=list)
    magnitudes: frozenset[str] = frozenset()
    probability_without: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ExplainedDocument:
    """A text with its explained classes.

    Attributes:
        name: title above the text.
        text: the source text.
        offsets: [T, 2] character offsets (begin, end) of each token. For a special token, begin equals end.
        classes: explained classes, in the order in which they are shown.
        num_unknown_tokens: number of the text's tokens that are the unknown token.
        truncated: whether the network reads only the beginning of the text or of its second text.

    Example:
        >>> positive = ExplainedClass("positive", 0.75, gold=True, predicted=True, scores={"ig": np.array([4.0, -1.0])})
        >>> document = ExplainedDocument("text 0", "good plot", np.array([[0, 4], [5, 9]]), [positive])
        >>> document.classes[0].scores["ig"].shape == (len(document.offsets),)
        True
    """

    name: str
    text: str
    offsets: np.ndarray
    classes: list[ExplainedClass]
    num_unknown_tokens: int = 0
    truncated: bool = False


class Piece(NamedTuple):
    """A part of a text that is drawn in one color.

    Attributes:
        text: characters of the piece.
        score: relative score, in [-1, 1], of the piece's token; None for text between tokens.
        evidence: whether the piece overlaps human evidence.

    Example:
        >>> Piece("good", score=1.0, evidence=True).text
        'good'
    """

    text: str
    score: float | None
    evidence: bool


def reading_notes(document: ExplainedDocument) -> list[str]:
    """Returns a line if tokens of a document are unknown to the network, and a line if the document is truncated.

    Example:
        >>> offsets = np.array([[0, 5], [6, 11]])
        >>> reading_notes(ExplainedDocument("text 0", "hello world again", offsets, [], truncated=True))
        ['the network reads only the first 11 of 17 characters']
        >>> reading_notes(ExplainedDocument("text 0", "hello world", offsets, [], num_unknown_tokens=2))
        ["2 of 2 tokens are unknown to the network's vocabulary"]
    """
    notes = []
    if number := document.num_unknown_tokens:
        total = int((document.offsets[:, 1] > document.offsets[:, 0]).sum())
        verb = "is" if number == 1 else "are"
        notes.append(f"{number:,} of {quantity(total, 'token')} {verb} unknown to the network's vocabulary")
    if document.truncated:
        end = int(document.offsets[:, 1].max(initial=0))
        part = f"the first {end:,} of {quantity(len(document.text), 'character')}"
        if end >= len(document.text.rstrip()):
            part = "the beginning of the second text"
        notes.append(f"the network reads only {part}")
    return notes


def largest_score(scores: np.ndarray, offsets: np.ndarray) -> float:
    """Returns the largest absolute score of the tokens that have characters in the text; 0 if no token has any.

    Example:
        >>> largest_score(np.array([90.0, 1.0, -2.0]), np.array([[0, 0], [0, 4], [5, 9]]))
        2.0
    """
    return float(np.abs(scores[offsets[:, 1] > offsets[:, 0]]).max(initial=0.0))


def relative_scores(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Returns scores [T] divided by the largest absolute score of a token that has characters in the text.

    The results are in [-1, 1]. Special tokens, which have no characters, get 0. Their scores are often so large that
    all words would look white if special tokens counted.

    Example:
        >>> relative_scores(np.array([90.0, 1.0, -2.0]), np.array([[0, 0], [0, 4], [5, 9]])).tolist()
        [0.0, 0.5, -1.0]
    """
    visible = np.where(offsets[:, 1] > offsets[:, 0], scores, 0.0)
    largest = largest_score(scores, offsets)
    return visible / largest if largest > 0 else np.zeros_like(visible)


def cut_text(text: str, offsets: np.ndarray, scores: np.ndarray, spans: Sequence[tuple[int, int]] = ()) -> list[Piece]:
    """Returns the pieces of a text in reading order: one for each token that has characters, and one for each gap.

    Characters that several tokens share (byte-level BPE) belong to the piece of the first of these tokens. A letter and
    its accents, or the parts of an emoji, stay in one piece.

    Args:
        text: the source text. The pieces, joined together, equal this text.
        offsets: [T, 2] character offsets (begin, end) of the tokens.
        scores: [T] relative scores.
        spans: human evidence, as pairs (begin, end) of character offsets.

    Example:
        >>> for piece in cut_text("so good", np.array([[0, 2], [3, 7]]), np.array([0.5, 1.0]), [(3, 7)]):
        ...     print(tuple(piece))
        ('so', 0.5, False)
        (' ', None, False)
        ('good', 1.0, True)
    """
    stretches: list[tuple[int, int, float | None]] = []  # begin and end in `text`, and score (None in a gap)
    cursor, bounds = 0, cluster_bounds(text)
    for (begin, end), score in zip(offsets.tolist(), scores.tolist(), strict=True):
        begin = max(bounds[bisect_right(bounds, begin) - 1], cursor) if end > begin else begin
        end = bounds[bisect_left(bounds, end)] if end > begin else begin
        if end > begin:
            stretches += [(cursor, begin, None), (begin, end, score)]
            cursor = end
    stretches.append((cursor, len(text), None))
    return [
        Piece(text[begin:end], score, evidence=any(begin < last and end > first for first, last in spans))
        for begin, end, score in stretches
        if end > begin
    ]


def method_pieces(document: ExplainedDocument, explained: ExplainedClass, method: str) -> list[Piece]:
    """Returns the pieces of a document with the relative scores of one method for one class.

    Example:
        >>> positive = ExplainedClass("positive", 0.75, gold=True, predicted=True, scores={"ig": np.array([4.0, -1.0])})
        >>> document = ExplainedDocument("text 0", "good plot", np.array([[0, 4], [5, 9]]), [positive])
        >>> [piece.score for piece in method_pieces(document, positive, "ig")]
        [1.0, None, -0.25]
    """
    scores = relative_scores(explained.scores[method], document.offsets)
    return cut_text(document.text, document.offsets, scores, explained.spans)


def class_status(explained: ExplainedClass) -> str:
    """Returns "gold" or "not gold" (if the labels are known) and "predicted" (if the class is predicted) in one text.

    Example:
        >>> class_status(ExplainedClass("positive", 0.75, gold=False, predicted=True, scores={}))
        'not gold, predicted'
    """
    words = [] if explained.gold is None else ["gold" if explained.gold else "not gold"]
    return ", ".join(words + ["predicted"] * explained.predicted)


def pure_color(score: float, *, has_sign: bool) -> Color:
    """Returns the color for a score, at full strength: orange above 0, blue below 0, purple if scores have no sign.

    Example:
        >>> pure_color(0.1, has_sign=True) == SUPPORTS, pure_color(0.1, has_sign=False) == MAGNITUDE
        (True, True)
    """
    if not has_sign:
        return MAGNITUDE
    return SUPPORTS if score > 0 else OPPOSES


def background_color(score: float, *, has_sign: bool = True) -> Color:
    """Returns the background color for a relative score in [-1, 1]: white at 0, close to the pure color at -1 and 1.

    Example:
        >>> background_color(0.0), background_color(1.0), background_color(-1.0)
        ((255, 255, 255), (221, 110, 71), (80, 127, 199))
    """
    pure = pure_color(score, has_sign=has_sign)
    strength = min(abs(score), 1.0) * MAX_STRENGTH
    red, green, blue = (round(255 + (channel - 255) * strength) for channel in pure)
    return red, green, blue


def ansi(document: ExplainedDocument, explained: ExplainedClass, method: str) -> str:
    """Returns the text of a document in 24-bit terminal colors.

    A strong score colors the background of its token, and a weaker score colors the letters.

    Example:
        >>> positive = ExplainedClass("positive", 0.75, gold=True, predicted=True, scores={"ig": np.array([4.0, 0.0])})
        >>> ansi(ExplainedDocument("text 0", "so good", np.array([[0, 2], [3, 7]]), [positive]), positive, "ig")
        '\\x1b[48;2;221;110;71m\\x1b[38;2;0;0;0mso\\x1b[0m good'
    """
    parts = []
    for piece in method_pieces(document, explained, method):
        shown = printable(piece.text)
        if piece.score is None or abs(piece.score) < MIN_TERMINAL_SCORE:
            parts.append(shown)
        elif abs(piece.score) < MIN_BACKGROUND_SCORE:
            red, green, blue = pure_color(piece.score, has_sign=method not in explained.magnitudes)
            parts.append(f"\x1b[38;2;{red};{green};{blue}m{shown}\x1b[0m")
        else:
            red, green, blue = background_color(piece.score, has_sign=method not in explained.magnitudes)
            parts.append(f"\x1b[48;2;{red};{green};{blue}m\x1b[38;2;0;0;0m{shown}\x1b[0m")
    return "".join(parts)
