"""Options that are one of a few words."""

from __future__ import annotations

from typing import Any, get_args


def require_choices(literals: dict[str, Any], values: dict[str, Any]) -> None:
    """Checks that each option is one of its words; unchecked, a misspelled word would silently select a default.

    Args:
        literals: the `Literal` of each option's words, by the option's name.
        values: the options' values by name; further values are not looked at.

    Raises:
        ValueError: a value is none of the option's words.

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
