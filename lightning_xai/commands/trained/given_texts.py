"""Reads texts from Python arguments: a string, a list of strings or a pandas Series."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import pandas as pd

from lightning_xai.commands.parser.choices import shortened
from lightning_xai.functional.text.quantity import quantity


class GivenTexts(NamedTuple):
    """Texts with their row labels for tables.

    Attributes:
        texts: the texts.
        labels: the row label of each text: its label in the index of a Series, otherwise its position (0, 1, ...).

    Example:
        >>> GivenTexts(["fine"], [0]).texts
        ['fine']
    """

    texts: list[str]
    labels: list[Hashable]


def given_texts(texts: Any, name: str = "texts") -> GivenTexts:
    """Returns texts as a list, with a row label for each.

    Args:
        texts: one string, or an iterable of strings, such as a list or a pandas Series.
        name: name of the argument, for messages.

    Raises:
        ValueError: an item is not a string. The message gives the row label of this item.

    Example:
        >>> given_texts(pd.Series(["fine", "dull"], index=["a", "b"])).labels
        ['a', 'b']
        >>> given_texts(["fine", None])
        Traceback (most recent call last):
        ValueError: texts[1] is None, not a string: replace or remove this item
    """
    if isinstance(texts, str):
        texts = [texts]
    if isinstance(texts, pd.DataFrame) or not isinstance(texts, Iterable):
        raise ValueError(
            f"{name} is a {type(texts).__name__}: give a string, a list of strings or one column, such as table['text']"
        )
    labels: list[Hashable] = list(texts.index) if isinstance(texts, pd.Series) else []
    items = list(texts)
    labels = labels or list(range(len(items)))
    for label, text in zip(labels, items, strict=True):
        if not isinstance(text, str):
            raise ValueError(f"{name}[{label!r}] is {shortened(repr(text))}, not a string: replace or remove this item")
    return GivenTexts(items, labels)


def given_pairs(text_pair: Any, num_texts: int) -> str | list[str] | None:
    """Checks the second texts of pairs, and returns them as one string for all examples, as a list, or as None.

    Raises:
        ValueError: the number of second texts differs from `num_texts`, or an item is not a string.

    Example:
        >>> given_pairs(["a", "b"], 2), given_pairs("a", 2), given_pairs(None, 2)
        (['a', 'b'], 'a', None)
    """
    if text_pair is None or isinstance(text_pair, str):
        return text_pair
    pairs = given_texts(text_pair, "text_pair").texts
    if len(pairs) != num_texts:
        raise ValueError(
            f"text_pair has {quantity(len(pairs), 'text')}, but texts has {quantity(num_texts, 'text')}: give a second "
            "text for each text, or one string that is the second text of all"
        )
    return pairs
