"""Finds grapheme clusters and the direction of writing of texts, and removes control characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Literal

import regex

Direction = Literal["left", "right"]  # side on which lines start: "right" for Arabic and Hebrew

# characters that change the direction of the text after them: embeddings, overrides and isolates
TURNS_DIRECTION = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINERS = frozenset("\u200c\u200d")  # some emoji and Persian words need these
_RIGHT = frozenset(["R", "AL"])
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
    """Replaces each character that controls a terminal or the direction of writing by a space.

    Line feeds and joiners are kept.

    Example:
        >>> printable("a\\x1b[31mb\\u202ec")
        'a [31mb c'
    """
    return "".join(c if c.isprintable() or c == "\n" or c in _JOINERS else " " for c in text)


def direction(text: str) -> Direction | None:
    """Returns the direction in which the first letter of a text is written, or None if the text has no letter.

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


def visual_order(directions: Sequence[Direction | None], base: Direction) -> list[int]:
    """Returns the indices of a line's pieces in the order in which they are drawn, from left to right.

    A piece without a letter takes the direction of its neighbors if they agree, and otherwise the direction `base`.
    These are rules N1, N2 and L2 of the Unicode Standard Annex 9, for two levels.

    Args:
        directions: direction of each piece, in reading order; None for a piece without a letter.
        base: direction of the whole text.

    Example:
        >>> visual_order(["left", "right", None, "right", "left"], base="left")
        [0, 3, 2, 1, 4]
        >>> visual_order(["right", "left", "left"], base="right")
        [1, 2, 0]
    """
    resolved: list[Direction] = []
    for place, own in enumerate(directions):
        before = resolved[-1] if resolved else base
        after = next((known for known in directions[place + 1 :] if known), base)
        resolved.append(own or (before if before == after else base))
    order: list[int] = []
    run: list[int] = []
    for place, own in enumerate(resolved):
        if own != base:
            run.append(place)
        else:
            order += [*reversed(run), place]
            run = []
    order += reversed(run)
    # pieces in the opposite direction were already reversed above, so reversing the whole line puts them back in order
    return order if base == "left" else order[::-1]


def joined_ends(before: str, piece: str, after: str) -> str:
    """Adds a joiner to each end of a piece of text where a cursive letter connects to the text before or after it.

    The pieces of an Arabic word are drawn one by one. With joiners, their letters have the same shapes as in the word.

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
