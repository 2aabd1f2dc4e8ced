"""The format number in the files of runs, chains of runs and stored scores. A file with another number is an error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

FORMAT = 2  # files in format 1 have no format number


def format_of(facts: Mapping[str, Any]) -> int:
    """Returns the format number of a JSON object from disk; 1 if it has no number.

    Example:
        >>> format_of({"status": "finished"}), format_of({"format": 2})
        (1, 2)
    """
    return int(facts.get("format", 1))


def is_current(facts: Mapping[str, Any]) -> bool:
    """Returns whether a JSON object from disk has the format that this version writes.

    Example:
        >>> is_current({"format": FORMAT}), is_current({"status": "finished"})
        (True, False)
    """
    return format_of(facts) == FORMAT


def with_format(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `facts`, the entries of a JSON object, with the format number added in front, to be written to disk.

    Example:
        >>> with_format({"status": "finished"})
        {'format': 2, 'status': 'finished'}
    """
    return {"format": FORMAT, **facts}


def without_format(facts: Mapping[str, Any], folder: Path, remedy: str) -> dict[str, Any]:
    """Returns `facts`, the entries of a JSON object that was read from disk, without their format number.

    Args:
        facts: the entries. If they have no format number, they are in format 1.
        folder: the folder of the file on disk, for the error message.
        remedy: end of the error message, with advice for the user.

    Raises:
        ValueError: the facts are not in the format that this version reads.

    Example:
        >>> without_format({"format": 2, "status": "finished"}, Path("runs/tm/seed0"), "remove it")
        {'status': 'finished'}
        >>> without_format({"status": "finished"}, Path("runs/tm/seed0"), "remove it")
        Traceback (most recent call last):
        ValueError: runs/tm/seed0 has format 1, but this version reads format 2: remove it
    """
    if not is_current(facts):
        raise ValueError(f"{folder} has format {format_of(facts)}, but this version reads format {FORMAT}: {remedy}")
    return {name: fact for name, fact in facts.items() if name != "format"}
