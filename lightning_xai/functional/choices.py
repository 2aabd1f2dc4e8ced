"""Options that are one of a few words."""

from __future__ import annotations

from typing import Any, get_args


def require_choices(literals: dict[str, Any], values: dict[str, Any]) -> None:
    """Checks options that would otherwise pass for the last of their words.

    Args:
        literals: the option's name and the `Literal` of its words.
        values: the options' values by name; others may be among them.

    Raises:
        ValueError: a value is none of the words.
    """
    for name, literal in literals.items():
        words = get_args(literal)
        if values[name] not in words:
            raise ValueError(f"{name} is {values[name]!r}: choose one of {', '.join(map(repr, words))}")
