"""Checks options that accept only certain words."""

from __future__ import annotations

from typing import Any, get_args


def require_choices(literals: dict[str, Any], values: dict[str, Any]) -> None:
    """Checks that every option has one of its allowed words as its value.

    Without this check, code with an `else` would silently treat a misspelled word like one of the allowed words.

    Args:
        literals: option name -> `Literal` of the allowed words.
        values: option name -> value. Names that are not in `literals` are ignored.

    Raises:
        ValueError: a value is not among the allowed words of its option.

    Example:
        >>> from typing import Literal
        >>> require_choices({"unit": Literal["token", "word"]}, {"unit": "words"})
        Traceback (most recent call last):
        ValueError: unit is 'words': choose one of 'token', 'word'
    """
    for name, literal in literals.items():
        words = get_args(literal)
        if values[name] not in words:
            raise ValueError(f"{name} is {values[name]!r}: choose one of {', '.join(map(repr, words))}")
