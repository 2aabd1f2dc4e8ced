"""Trims the evidence spans of MDACE, as MDACE's own reader does or as Edin et al. do."""

from __future__ import annotations

import string
from typing import Literal

Trim = Literal["none", "mdace", "edin"]
LEFT, RIGHT = "-.,/)" + string.whitespace, "-.,/(" + string.whitespace


def trimmed(text: str, begin: int, end: int, trim: Trim) -> tuple[int, int]:
    """Returns the trimmed span, which may be empty.

    Args:
        text: text of the note.
        begin, end: the span, in characters, end exclusive.
        trim: "none" keeps the span. "mdace" strips white space and "-.,/" at both ends, ")" on the left and "(" on the
            right, as MDACE's own reader does. "edin" drops the last character of the span if the character after the
            span is punctuation or white space, and the first character if it is punctuation or white space itself.

    Example:
        >>> text = "Dx: (gout), stable"
        >>> [text[slice(*trimmed(text, 4, 11, trim))] for trim in ("none", "mdace", "edin")]
        ['(gout),', '(gout)', 'gout)']
    """
    if trim == "mdace":
        while begin < end and text[begin] in LEFT:
            begin += 1
        while begin < end and text[end - 1] in RIGHT:
            end -= 1
    elif trim == "edin":
        first = text[begin]
        if end < len(text) and is_border(text[end]):
            end -= 1
        if is_border(first):
            begin += 1
    return begin, max(begin, end)


def is_border(character: str) -> bool:
    """Returns whether a character is ASCII punctuation or white space.

    Example:
        >>> is_border(","), is_border("\\n"), is_border("a")
        (True, True, False)
    """
    return character in string.punctuation or character.isspace()


def ends_inside_word(text: str, begin: int, end: int) -> bool:
    """Returns whether a span begins or ends inside a word, that is, between two letters or digits.

    Example:
        >>> ends_inside_word("a cough", 2, 7), ends_inside_word("a cough", 3, 7)
        (False, True)
    """
    return any(0 < place < len(text) and text[place - 1].isalnum() and text[place].isalnum() for place in (begin, end))
