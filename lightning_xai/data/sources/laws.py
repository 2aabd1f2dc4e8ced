"""Checks of properties that every data source must have. `check_source` runs all of them on a given source."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from datasets import DatasetDict

from lightning_xai.data.sources.base import TextSource, checked_examples
from lightning_xai.functional.laws import changed_parts, process_state, require
from lightning_xai.functional.own_parts import require_object


def check_source(source: TextSource) -> None:
    """Checks that a source has the properties that all sources of this package have.

    Args:
        source: the source, before it has loaded anything. Its files are read twice.

    Raises:
        ValueError: the source lacks a property; the message names the property and the remedy.

    Example:
        >>> from lightning_xai.data.sources.base import rows_to_splits
        >>> class Reviews(TextSource):
        ...     class_names = ["bad", "good"]
        ...     def load(self):
        ...         return rows_to_splits({"test": [{"text": "a good film", "labels": 2, "id": "0"}]})
        >>> check_source(Reviews())  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        ValueError: test row '0': label 2 is not one of the 2 classes (0-1); correct the label, or add its class to the
        source
    """
    require_object(source, TextSource)
    name, again = type(source).__name__, copy.deepcopy(source)
    process = process_state()
    source.prepare()
    splits = source.load()
    changed = changed_parts(process, process_state())
    rule = f"{name}: loading the data changed {', '.join(changed)}"
    require(not changed, rule, "draw random numbers from numpy.random.default_rng(seed)")
    class_names_are_fixed(source, again)  # comes first, because rows_are_valid compares labels with the number of names
    rows_are_valid(source, splits)
    a_second_load_is_equal(again, splits)
    filler_is_apart(source)


def rows_are_valid(source: TextSource, splits: Any) -> None:
    """Checks that `load` returned splits whose rows have the format that TextSource describes.

    Raises:
        ValueError: there are no splits, a row breaks the format, two rows of a split have the same id, or only some
            rows of a split have a `text_pair`.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> source = Planted(num_train=4, num_validation=2, num_test=2)
        >>> rows_are_valid(source, source.load())
    """
    name = type(source).__name__
    remedy = "return rows_to_splits({'train': rows, ...})"
    require(
        isinstance(splits, DatasetDict) and len(splits) > 0,
        f"{name}.load returned {type(splits).__name__}, not a DatasetDict with at least one split",
        remedy,
    )
    for split, rows in splits.items():
        examples = checked_examples(rows, str(split), source)
        ids = [example["id"] for example in examples]
        repeated = next((i for i in ids if ids.count(i) > 1), None) if len(set(ids)) < len(ids) else None
        rule = f"{name}: split {split!r} has the id {repeated!r} twice"
        require(repeated is None, rule, "give every row its own id")
        paired = {example.get("text_pair") is not None for example in examples}
        rule = f"{name}: only some rows of split {split!r} have a text_pair"
        require(len(paired) == 1, rule, "give a text_pair to all rows or to none")


def class_names_are_fixed(source: TextSource, other: TextSource) -> None:
    """Checks that the class names are distinct strings, and are the same before and after the rows are loaded.

    Args:
        source: a source that has loaded its rows.
        other: another object of the same source, before it has loaded anything.

    Raises:
        ValueError: there are no class names, or a class name is not a string, occurs twice, or changes.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> class_names_are_fixed(Planted(), Planted())
    """
    names, name = source.class_names, type(source).__name__
    listed = isinstance(names, Sequence) and not isinstance(names, str)
    distinct = listed and all(isinstance(one, str) for one in names) and len(set(names)) == len(names) > 0
    require(distinct, f"{name}: class_names is {names}", "give a list of different strings")
    before = other.class_names
    rule = f"{name}: class_names is {before} before the rows are loaded, but {names} afterwards"
    require(before == names, rule, "sort the names, or set class_names in the class")


def a_second_load_is_equal(source: TextSource, splits: DatasetDict) -> None:
    """Checks that two objects of the same source load the same rows in the same order.

    Args:
        source: the second object.
        splits: the rows that the first object loaded.

    Raises:
        ValueError: a split or a row differs.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> sizes = {"num_train": 4, "num_validation": 2, "num_test": 2}
        >>> a_second_load_is_equal(Planted(**sizes), Planted(**sizes).load())
    """
    name, second = type(source).__name__, source.load()
    rule = f"{name}: a second load gives the splits {list(second)}, but the first gave {list(splits)}"
    require(list(second) == list(splits), rule, "return the same splits in every process")
    for split in splits:
        rule = f"{name}: a second load gives other rows in split {split!r}"
        remedy = "sort the elements of sets and the files of folders, and seed every random choice"
        require(second[split].to_list() == splits[split].to_list(), rule, remedy)


def filler_is_apart(source: TextSource) -> None:
    """Checks that no filler text, which is a text that supports no class, is in more than one split.

    Raises:
        ValueError: a text is in two splits.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> filler_is_apart(Planted())
    """
    seen: dict[str, str] = {}
    for split, texts in source.load_filler().items():
        for text in set(texts):
            rule = (
                f"{type(source).__name__}: filler text {text[:30]!r} is in the splits {seen.get(text)!r} and {split!r}"
            )
            require(text not in seen, rule, "do not put the same filler text into more than one split")
            seen[text] = split
