"""Finds the grapheme clusters and the writing direction of texts, and replaces control characters by spaces."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Literal

import regex

TextDirection = Literal["left", "right"]  # side on which lines start: "right" for Arabic and Hebrew

# characters that change the writing direction of the text after them (Unicode embeddings, overrides and isolates)
TURNS_DIRECTION = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINERS = frozenset("\u200c\u200d")  # some emoji and Persian words need these
_RIGHT = frozenset(["R", "AL"])
_DIGITS = frozenset(["EN", "AN"])
_BRACKETS = "()[]{}<>\u00ab\u00bb\u2039\u203a\u2264\u2265"
_MIRRORS = str.maketrans(_BRACKETS, "".join(_BRACKETS[place ^ 1] for place in range(len(_BRACKETS))))
JOINER = "\u200d"


def cluster_bounds(text: str) -> list[int]:
    """Returns the start positions of a text's grapheme clusters, followed by the text's length.

    A grapheme cluster looks like one character to a reader, such as a letter with its accents or an emoji of several
    parts (Unicode Standard Annex 29).

    Example:
        >>> cluster_bounds("e\\u0301a"), cluster_bounds("")
        ([0, 2, 3], [0])
    """
    return [0, *(match.end() for match in regex.finditer(r"\X", text))]


def printable(text: str) -> str:
    """Replaces each character that is not printable by a space, so that texts cannot control a terminal.

    Characters that change the writing direction are not printable either. Line feeds and joiners are kept.

    Example:
        >>> printable("a\\x1b[31mb\\u202ec")
        'a [31mb c'
    """
    return "".join(c if c.isprintable() or c == "\n" or c in _JOINERS else " " for c in text)


def direction(text: str) -> TextDirection | None:
    """Returns the side on which a text's lines start. The first letter decides; without letters, returns None.

    Example:
        >>> direction("12 good"), direction("\\u05e9\\u05dc"), direction("3.")
        ('left', 'right', None)
    """
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in _RIGHT:
            return "right"
        if kind == "L":
            return "left"
    return None


def piece_directions(texts: Sequence[str]) -> list[TextDirection | Literal["number"] | None]:
    """Returns the direction of each piece of a line: that of the first letter in the piece.

    For a piece without a letter, returns "number" if it is part of a number (such as a digit or "%"), otherwise None.

    Example:
        >>> piece_directions(["\\u05e9", " ", "2", "5", "%", "!", "good"])
        ['right', None, 'number', 'number', 'number', None, 'left']
    """
    kinds = [{unicodedata.bidirectional(character) for character in text} for text in texts]
    known: list[TextDirection | Literal["number"] | None] = [direction(text) for text in texts]
    known = [own or ("number" if kind & _DIGITS else None) for own, kind in zip(known, kinds, strict=True)]
    digits = [own == "number" for own in known]
    for place, kind in enumerate(kinds):
        beside = [digits[near] for near in (place - 1, place + 1) if 0 <= near < len(digits)]
        if kind and (kind <= {"ET"} and any(beside) or kind <= {"CS", "ES"} and beside == [True, True]):
            known[place] = "number"
    return known


def piece_levels(directions: Sequence[TextDirection | Literal["number"] | None], base: TextDirection) -> list[int]:
    """Returns the Unicode embedding level of each piece of a line: odd for right-to-left text, even for left-to-right.

    A piece without a direction takes the direction of its neighbors if they agree, and otherwise the direction `base`.
    A number after a right-to-left word has level 2, because its digits are written from left to right. This function
    and `piece_directions` follow the rules W4, W5, W7, N1 and N2 of Unicode Standard Annex 9.

    Args:
        directions: direction of each piece, in reading order, from `piece_directions`.
        base: direction of the whole text.

    Example:
        >>> piece_levels(["left", "right", None, "number", "left"], base="left")
        [0, 1, 1, 2, 0]
    """
    left, number = (0, 2) if base == "left" else (2, 2)
    levels: list[int] = []
    before = base  # direction of the last word; a number has the direction of the word before it
    for place, own in enumerate(directions):
        if own == "number" and before == "right":
            levels.append(number)
        elif own is not None:
            before = "left" if own == "number" else own
            levels.append(left if before == "left" else 1)
        else:
            following = next((known for known in directions[place + 1 :] if known), base)
            following = before if following == "number" else following
            levels.append(left if (before if before == following else base) == "left" else 1)
    return levels


def visual_order(levels: Sequence[int]) -> list[int]:
    """Returns the indices of a line's pieces in the order in which they are drawn, from left to right.

    This is rule L2 of Unicode Standard Annex 9.

    Args:
        levels: level of each piece, in reading order, from `piece_levels`.

    Example:
        >>> visual_order([0, 1, 1, 1, 0]), visual_order([1, 2, 2])
        ([0, 3, 2, 1, 4], [1, 2, 0])
    """
    order = list(range(len(levels)))
    for level in range(max(levels, default=0), 0, -1):
        start = 0
        while start < len(order):
            end = start
            while end < len(order) and levels[order[end]] >= level:
                end += 1
            order[start:end] = reversed(order[start:end])
            start = max(end, start + 1)
    return order


def mirrored(text: str) -> str:
    """Replaces brackets by their mirror images, as they look in right-to-left text.

    Example:
        >>> mirrored("[1)")
        ']1('
    """
    return text.translate(_MIRRORS)


def joined_ends(before: str, piece: str, after: str) -> str:
    """Returns `piece` with a joiner at each end where a cursive letter connects to the text beside the piece.

    The pieces of an Arabic word are drawn one by one. With joiners, letters keep the shapes that they have in the word.

    Example:
        >>> joined_ends("\\u0633", "\\u0644\\u0627", " ") == "\\u200d\\u0644\\u0627"
        True
        >>> joined_ends("a", "b", "c")
        'b'
    """
    left = JOINER if _is_cursive(before[-1:]) and _is_cursive(piece[:1]) else ""
    right = JOINER if _is_cursive(piece[-1:]) and _is_cursive(after[:1]) else ""
    return f"{left}{piece}{right}"


def _is_cursive(character: str) -> bool:
    return bool(character) and unicodedata.bidirectional(character) == "AL"
