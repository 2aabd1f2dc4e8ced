"""Numbers with their nouns, for messages and tables."""

from __future__ import annotations


def quantity(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun, which is in the singular for 1.

    Args:
        number: the number, which is written with commas between thousands.
        noun: the noun in the singular.
        plural: the noun in the plural. By default, "s" is appended to `noun`, or "es" if `noun` ends with "s".

    Example:
        >>> quantity(1, "row"), quantity(1200, "class"), quantity(0, "corpus", "corpora")
        ('1 row', '1,200 classes', '0 corpora')
    """
    ending = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun if number == 1 else plural or noun + ending}"
