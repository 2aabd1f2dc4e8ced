"""Characters as people see them: clusters that are never cut, the direction of writing, and text safe to print."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Literal

import regex

Direction = Literal["left", "right"]  # side on which reading begins: "right" for Arabic and Hebrew

# characters that turn the direction of all text after them: embeddings, overrides and isolates
TURNS_DIRECTION = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINERS = frozenset("\u200c\u200d")  # without these two, emoji fall apart and Persian words change
_RIGHT = frozenset(["R", "AL"])
JOINER = "\u200d"


def cluster_bounds(text: str) -> list[int]:
    """Returns the positions at which the grapheme clusters of a text begin, and as the last number the text's length.

    A grapheme cluster is what a reader takes for one character, such as a letter with its accents or an emoji of
    several parts (Unicode Standard Annex 29).

    Example:
        >>> cluster_bounds("e\\u0301a"), cluster_bounds("")
        ([0, 2, 3], [0])
    """
    return [0, *(match.end() for match in regex.finditer(r"\X", text))]


def printable(text: str) -> str:
    """Returns the text with a space for each character that would control a terminal or turn the direction of writing.

    Line feeds and joiners stay.

    Example:
        >>> printable("a\\x1b[31mb\\u202ec")
        'a [31mb c'
    """
    return "".join(c if c.isprintable() or c == "\n" or c in _JOINERS else " " for c in text)


def direction(text: str) -> Direction | None:
    """Returns the direction of the first letter of a text, or None if the text has no letter.

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
    """Returns the places of a line's pieces from left to right.

    A piece without a letter takes the direction of its neighbors if they agree, and the base direction otherwise. These
    are rules N1, N2 and L2 of the Unicode Standard Annex 9 for two levels.

    Args:
        directions: direction of each piece in reading order.
        base: direction of the paragraph.

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
    # each run of the other direction was reversed above; reversing the whole line too restores these runs
    return order if base == "left" else order[::-1]


def joined_ends(before: str, piece: str, after: str) -> str:
    """Returns a piece with joiners at the ends where letters of a cursive script continue beyond the piece.

    The pieces of an Arabic word are drawn one by one. The joiners keep the forms that the letters have in the word.

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
