"""The format number of runs, chains and stores on disk: files of another format are refused, never guessed at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

FORMAT = 2  # 1 had no number


def with_format(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns facts to be written to disk, the number of the format first.

    Example:
        >>> with_format({"status": "finished"})
        {'format': 2, 'status': 'finished'}
    """
    return {"format": FORMAT, **facts}


def without_format(facts: Mapping[str, Any], place: Path, remedy: str) -> dict[str, Any]:
    """Returns facts read from disk without the number of their format.

    Args:
        facts: contents of a JSON file; without a number they are of format 1.
        place: the folder that an error names.
        remedy: what a user can do, the end of the error's sentence.

    Raises:
        ValueError: the facts are of another format than this version's.

    Example:
        >>> without_format({"format": 2, "status": "finished"}, Path("runs/tm/seed0"), "remove it")
        {'status': 'finished'}
        >>> without_format({"status": "finished"}, Path("runs/tm/seed0"), "remove it")
        Traceback (most recent call last):
        ValueError: runs/tm/seed0 has format 1, but this version reads format 2: remove it
    """
    number = facts.get("format", 1)
    if number != FORMAT:
        raise ValueError(f"{place} has format {number}, but this version reads format {FORMAT}: {remedy}")
    return {name: fact for name, fact in facts.items() if name != "format"}
