"""Checks rationales in the cells of tables, and converts them to character spans."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.functional.text.spans import spans_from_mask, word_offsets

REMEDY = "write [[begin, end], ...], or leave the cell empty"


def rationale_cell(cell: Any, location: str) -> list[Any]:
    """Returns the list in a rationale cell, which may be written as JSON; [] if the cell is empty.

    Raises:
        ValueError: the cell does not contain a list. The message starts with `location`.

    Example:
        >>> rationale_cell("[[0, 4]]", "row 0"), rationale_cell(None, "row 1")
        ([[0, 4]], [])
    """
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{location}: rationale {cell[:60]!r} is not a JSON list ({error.msg}); {REMEDY}"
            ) from error
    if cell is not None and not isinstance(cell, list):
        raise ValueError(f"{location}: rationale {str(cell)[:60]} is not a list; {REMEDY}")
    return cell or []


def rationale_parts(rationales: Any, location: str) -> list[dict[str, Any]]:
    """Returns the rationales of a row, in the format that TextSource describes; [] for None.

    Raises:
        ValueError: the rationales are not a list of dicts with the keys "label" and "spans". The message starts with
            `location`.

    Example:
        >>> rationale_parts([{"label": 1, "spans": [[0, 4]]}], "row 0")
        [{'label': 1, 'spans': [[0, 4]]}]
        >>> rationale_parts([[0, 4]], "row 0")
        Traceback (most recent call last):
        ValueError: row 0: rationales is [[0, 4]]; write [{'label': class number, 'spans': [[begin, end], ...]}, ...]
    """
    is_none = rationales is None or isinstance(rationales, list | tuple | np.ndarray) and len(rationales) == 0
    parts = [] if is_none else rationales
    if not isinstance(parts, list | tuple) or not all(
        isinstance(part, dict) and {"label", "spans"} <= set(part) for part in parts
    ):
        raise ValueError(
            f"{location}: rationales is {str(rationales)[:60]}; "
            "write [{'label': class number, 'spans': [[begin, end], ...]}, ...]"
        )
    return list(parts)


def whole_spans(spans: Any, location: str) -> list[list[int]]:
    """Returns spans as integers. Whole floats such as 4.0 are accepted; fractions and booleans are errors.

    Raises:
        ValueError: `spans` is not a list of [begin, end] pairs of whole numbers. The message starts with `location`.

    Example:
        >>> whole_spans([[0, 4.0]], "row 0")
        [[0, 4]]
        >>> whole_spans([[0.9, 4.7]], "row 1")
        Traceback (most recent call last):
        ValueError: row 1: rationale span [0.9, 4.7] is not a pair [begin, end] of whole numbers; correct it
    """
    if not isinstance(spans, (list, tuple)):
        raise ValueError(
            f"{location}: rationale {str(spans)[:60]} is not a list of [begin, end]; write [[begin, end], ...]"
        )
    for span in spans:
        if not isinstance(span, (list, tuple)) or len(span) != 2 or not all(map(is_whole, span)):
            raise ValueError(
                f"{location}: rationale span {str(span)[:60]} is not a pair [begin, end] of whole numbers; correct it"
            )
    return [[int(begin), int(end)] for begin, end in spans]


def is_whole(number: Any) -> bool:
    """Returns whether a value is an integer or a whole float. Booleans do not count.

    Example:
        >>> is_whole(4), is_whole(4.0), is_whole(4.7), is_whole(True)
        (True, True, False, False)
    """
    if isinstance(number, (bool, np.bool_)):
        return False
    return isinstance(number, (int, np.integer)) or isinstance(number, float) and number.is_integer()


def word_mask_spans(mask: list[Any], text: str, name: str) -> list[list[int]]:
    """Returns the character spans of the words whose mask is 1.

    Args:
        mask: 0 or 1 (or false or true) for each whitespace word; or a list of such masks, one per annotator. With
            several annotators, the mask of a word is 1 if at least half of them marked the word.
        text: the text.
        name: name of the row, for error messages.

    Raises:
        ValueError: the number of values in a mask differs from the number of words, or a value is neither 0 nor 1.

    Example:
        >>> word_mask_spans([0, 1, 1], "a good film", "row 0")
        [[2, 11]]
    """
    masks = mask if mask and isinstance(mask[0], list) else [mask]
    words = word_offsets(text)
    for annotated in masks:
        if not isinstance(annotated, list) or not all(
            isinstance(value, (bool, int, float)) and value in (0, 1) for value in annotated
        ):
            raise ValueError(
                f"{name}: rationale {str(annotated)[:60]} is not a list of 0 and 1; correct it, or leave out "
                "`rationale_format: word_mask` if rationales are spans of characters"
            )
        if len(annotated) != len(words):
            raise ValueError(
                f"{name}: rationale has {quantity(len(annotated), 'value')} for "
                f"{quantity(len(words), 'whitespace word')}; give one value for each word"
            )
    return spans_from_mask(np.mean(masks, axis=0) >= 0.5, words, text) if len(words) else []
