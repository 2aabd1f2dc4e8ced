"""Properties of characters as arrays, so that texts can be processed without a loop over characters."""

from __future__ import annotations

import sys
import unicodedata

import numpy as np

_LAST_SPACE = 0x3000  # no character after this one is white space
_IS_SPACE = np.array([chr(code).isspace() for code in range(_LAST_SPACE + 1)] + [False])
_UNKNOWN, _VISIBLE, _INVISIBLE = 0, 1, 2
_kinds = np.zeros(sys.maxunicode + 1, dtype=np.uint8)  # an entry per character; set when the character first occurs


def code_points(text: str) -> np.ndarray:
    """Returns the code points [characters] of a text.

    Example:
        >>> code_points("a b").tolist()
        [97, 32, 98]
    """
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def are_spaces(codes: np.ndarray) -> np.ndarray:
    """Returns [characters] bool, True at white space (where `str.isspace` returns True).

    Example:
        >>> are_spaces(code_points("a b")).tolist()
        [False, True, False]
    """
    return _IS_SPACE[np.minimum(codes, _LAST_SPACE + 1)]


def are_visible(codes: np.ndarray) -> np.ndarray:
    """Returns [characters] bool, True at visible characters (where `is_visible` returns True).

    Example:
        >>> are_visible(code_points("a b")).tolist()
        [True, False, True]
    """
    kinds = _kinds[codes]
    for code in np.unique(codes[kinds == _UNKNOWN]).tolist():  # each character is looked up once per process
        _kinds[code] = _VISIBLE if is_visible(chr(code)) else _INVISIBLE
    return _kinds[codes] == _VISIBLE


def is_visible(character: str) -> bool:
    """Returns False for spaces, control characters, format characters and accents; True for visible characters.

    Example:
        >>> [is_visible(character) for character in ("a", " ", "\\ufeff", "\\u0301")]
        [True, False, False, False]
    """
    return not character.isspace() and unicodedata.category(character) not in ("Cc", "Cf", "Mn", "Me")


def words_begun(spaces: np.ndarray, text_begins: np.ndarray) -> np.ndarray:
    """Returns counts [characters + 1]: how many words of joined texts begin before each character, and before the end.

    Args:
        spaces: [characters] bool, True at white space.
        text_begins: the position of each text's first character. A word may begin there even without white space
            before it.

    Example:
        >>> words_begun(are_spaces(code_points("so good")), np.array([0])).tolist()
        [0, 1, 1, 1, 2, 2, 2, 2]
    """
    after_space = np.ones(len(spaces), dtype=bool)
    after_space[1:] = spaces[:-1]
    after_space[text_begins[text_begins < len(spaces)]] = True
    return np.concatenate([[0], np.cumsum(after_space & ~spaces)])


def without_spaces(offsets: np.ndarray, spaces: np.ndarray) -> np.ndarray:
    """Returns offsets [T, 2] that exclude white space at either end of a token.

    If a token consists of white space, both of its offsets become its former end.

    Args:
        offsets: [T, 2] start and exclusive end of each token, in characters.
        spaces: [characters] bool, True at white space.

    Example:
        >>> without_spaces(np.array([[0, 2], [2, 7]]), are_spaces(code_points("so good"))).tolist()
        [[0, 2], [3, 7]]
    """
    stripped = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    begin, end = stripped[:, 0], np.minimum(stripped[:, 1], len(spaces))
    rows = np.flatnonzero(begin < end)
    rows = rows[spaces[begin[rows]] | spaces[end[rows] - 1]]
    if len(rows):
        places = np.arange(len(spaces))
        following = np.minimum.accumulate(np.where(spaces, len(spaces), places)[::-1])[::-1]  # the next non-space
        preceding = np.maximum.accumulate(np.where(spaces, 0, places + 1))  # end of the last non-space so far
        first = np.minimum(following[begin[rows]], end[rows])
        stripped[rows, 1] = np.maximum(preceding[end[rows] - 1], first)
        stripped[rows, 0] = first
    return stripped
