"""Lists the possible choices for error messages: shortened, and with the most similar choice first."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

MOST_CHARACTERS = 70


def listed_choices(names: Iterable[str], similar_to: str = "") -> str:
    """Returns names as text for a message, those most like `similar_to` first. A long text ends in "and 9 others".

    Example:
        >>> listed_choices(["num_steps", "pooling", "baseline"], "num_step")
        'num_steps, baseline, pooling'
        >>> listed_choices([f"class_{i:03}" for i in range(90)], "class_017")[:20]
        'class_017, class_001'
    """

    def similarity(name: str) -> float:
        return SequenceMatcher(None, similar_to.lower(), name.lower()).ratio()

    ordered = sorted(dict.fromkeys(names), key=lambda name: (-round(similarity(name), 2) if similar_to else 0, name))
    kept = list(ordered)
    while len(kept) > 1 and len(", ".join(kept)) > MOST_CHARACTERS:
        kept.pop()
    left_out = len(ordered) - len(kept)
    return ", ".join(kept) + (f" and {left_out} other{'s' * (left_out > 1)}" if left_out else "")


def shortened(value: object, max_length: int = 60) -> str:
    """Returns a value as one line of text for a message, cut to at most `max_length` characters.

    Example:
        >>> shortened("abc"), shortened("x" * 99, 9)
        ('abc', 'xxxxxx...')
    """
    text = " ".join(str(value).split())
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."
