"""The names of splits in tables and in log tags."""

from __future__ import annotations

VALIDATION = "validation"  # the split on which thresholds are tuned


def log_prefix(split: str) -> str:
    """Returns the first part of a split's log tags: "val" for the validation split, else the split's name.

    Example:
        >>> log_prefix("validation"), log_prefix("test")
        ('val', 'test')
    """
    return "val" if split == VALIDATION else split
