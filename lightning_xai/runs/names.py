"""Checks the names of experiments, splits, methods, presets and metrics, because they become parts of paths."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MAX_BYTES = 200  # file systems allow 255 bytes in each part of a path, including suffixes


def check_name(kind: str, name: str, *, nested: bool = False) -> None:
    """Raises ValueError if a name cannot safely be used as a path.

    The path could lead out of its folder, be taken for an option of a program, or be invalid on some file system.

    Args:
        kind: what the name is for, such as "split", for messages.
        name: the name.
        nested: whether the name may have several parts, such as the experiment "roar/gradient/010".

    Example:
        >>> check_name("split", "test_out-of-domain v1.2")
        >>> check_name("experiment", "roar/gradient/010", nested=True)
        >>> check_name("experiment", "../secret", nested=True)
        Traceback (most recent call last):
        ValueError: experiment is '../secret': choose a name that has no part '..'
    """
    if not nested and "/" in name:
        raise ValueError(f"{kind} is {name!r}: choose a name that has no /")
    for part in name.split("/"):
        problem = _problem(part)
        if problem is not None:
            shown = name if len(name) <= 80 else f"{name[:77]}..."
            raise ValueError(f"{kind} is {shown!r}: choose a name that {problem}")


def check_names(kind: str, names: Sequence[str], *, reserved: Sequence[str]) -> None:
    """Raises ValueError if there are no names, or if a name is in `reserved` or not allowed as a folder name.

    Example:
        >>> check_names("methods", ["gradient"], reserved=["random"])
    """
    wrong = [n for n in names if n in reserved or not re.fullmatch(r"\w[\w .+-]*", n) or re.fullmatch(r"seed\d+", n)]
    if wrong or not names:
        raise ValueError(
            f"{kind} are {list(names)}: give one or more names that consist of letters, digits, spaces and _ . + -, "
            f"begin with a letter, digit or _, and are not seed<number> or {', '.join(reserved)}"
        )
    for name in names:
        check_name(f"a name in {kind}", name)


def _problem(part: str) -> str | None:
    """Returns the rule that a part of a name breaks, such as "has no backslash"; None if it breaks no rule."""
    if not part:
        return "is not empty, neither begins nor ends with /, and has no //"
    if part in (".", ".."):
        return f"has no part {part!r}"
    if part != part.strip():
        return "neither begins nor ends with a space"
    if part.startswith("-"):  # other programs would take the path for an option, such as the -rf of rm
        return "does not begin with -"
    if "\\" in part:
        return "has no backslash"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in part):  # control characters, surrogates
        return "has no control character"
    if len(part.encode()) > MAX_BYTES:
        return f"is at most {MAX_BYTES} bytes long"
    return None
