"""The interface of all data sources, and functions that they share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict, Features, List, Value

from lightning_xai.data.init_args import arguments_of
from lightning_xai.data.sources.row_checks import check_example, check_given_row
from lightning_xai.data.sources.row_stream import RowStream
from lightning_xai.runs.names import check_name

LONGEST_PATH = 4096  # characters; a string of at least this length is assumed not to be a path


def rows_to_dataset(rows: Iterable[dict[str, Any]], multilabel: bool = False) -> Dataset:
    """Returns the rows as a data set in memory. The keys of a row are columns of TextSource; some may be missing.

    Raises:
        ValueError: a row is not a dict, its labels or rationales do not have the format of TextSource, or a class
            number or the start or end of a span is not a whole number.

    Example:
        >>> rows_to_dataset([{"text": "good", "labels": 1, "id": "a"}]).column_names
        ['text', 'labels', 'id']
    """
    features = row_features(multilabel)
    rows = list(rows)
    for row in rows:
        check_given_row(row, multilabel)
    used = [name for name in features if any(name in row for row in rows)]
    columns = {name: [row.get(name) for row in rows] for name in used}
    return Dataset.from_dict(columns, features=Features({name: features[name] for name in used}))


def row_features(multilabel: bool) -> Features:
    """Returns the types of all columns of TextSource.

    Example:
        >>> list(row_features(multilabel=False))
        ['text', 'text_pair', 'labels', 'rationales', 'id']
    """
    text, labels = Value("string"), List(Value("int64")) if multilabel else Value("int64")
    rationales = List({"label": Value("int64"), "spans": List(List(Value("int64")))})
    return Features({"text": text, "text_pair": text, "labels": labels, "rationales": rationales, "id": text})


def rows_to_splits(splits: Mapping[str, Iterable[dict[str, Any]]], multilabel: bool = False) -> DatasetDict:
    """Returns the rows of every split in the format that TextSource.load must return.

    Example:
        >>> rows_to_splits({"train": [{"text": "good", "labels": 1, "id": "a"}]})["train"]["text"][:]
        ['good']
    """
    if not isinstance(splits, Mapping):
        raise ValueError(f"splits is {str(splits)[:60]}, not a dict: write {{'train': rows, 'test': rows}}")
    return DatasetDict({split: rows_to_dataset(rows, multilabel) for split, rows in splits.items()})


def rationales_of(label: int, spans: list[list[int]]) -> list[dict[str, Any]]:
    """Returns the cell of the column `rationales` for a row with evidence for only one class; [] if `spans` is empty.

    Example:
        >>> rationales_of(1, [[0, 4]]), rationales_of(1, [])
        ([{'label': 1, 'spans': [[0, 4]]}], [])
    """
    return [{"label": label, "spans": spans}] if spans else []


def split_rows(num_rows: int, validation_fraction: float, test_fraction: float, seed: int) -> dict[str, np.ndarray]:
    """Divides rows at random into train, validation and test. Returns split -> row numbers in ascending order.

    Example:
        >>> [len(rows) for rows in split_rows(10, 0.1, 0.2, seed=0).values()]
        [7, 1, 2]
    """
    order = np.random.default_rng(seed).permutation(num_rows)
    num_test, num_validation = round(test_fraction * num_rows), round(validation_fraction * num_rows)
    parts = np.split(order, [num_test, num_test + num_validation])
    return {"train": np.sort(parts[2]), "validation": np.sort(parts[1]), "test": np.sort(parts[0])}


def require_fractions(**fractions: float) -> None:
    """Checks the fractions of rows for the validation and test splits.

    Raises:
        ValueError: a fraction is not above 0, or the fractions leave no training data.

    Example:
        >>> require_fractions(validation_fraction=0.1, test_fraction=0.2)
    """
    if min(fractions.values()) <= 0 or sum(fractions.values()) >= 1:
        given = " and ".join(f"{name}={value}" for name, value in fractions.items())
        raise ValueError(f"{given}: give fractions above 0 that add up to less than 1, to leave some training data")


def paths_in(arguments: Mapping[str, Any]) -> list[Path]:
    """Returns the existing files and folders among constructor arguments, as `TextSource.files` describes.

    Example:
        >>> paths_in({"path": "stanfordnlp/imdb", "class_names": ["docs", "runs"]})
        []
    """
    paths: list[Path] = []
    for name, value in arguments.items():
        if name == "kwargs" and isinstance(value, Mapping):  # arguments of a base class
            paths += paths_in(value)
            continue
        values = list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
        for one in values:
            if isinstance(one, TextSource):
                paths += one.files()
            elif isinstance(one, list):
                paths += paths_in({name: one})
            elif isinstance(one, str | Path) and str(one):
                may_be_folder = re.search("path|dir|folder|file", name) is not None
                if len(str(one)) < LONGEST_PATH and (Path(one).is_file() or may_be_folder and Path(one).is_dir()):
                    paths.append(Path(one))
    return paths


class TextSource(ABC):
    """Loads rows of text with labels and, where the data has them, rationales.

    Columns of every split that `load` returns:
        text (str), text_pair (str, optional),
        labels (int; a list of int if `multilabel`),
        rationales (optional): a list of {"label": int, "spans": list of [begin, end]} with character offsets into
            `text`, end exclusive; `label` is the class that the evidence supports,
        id (str): the name of the row in its source.
    Splits: "train", "validation" and "test". Splits with other names are treated as additional test splits.

    Attributes:
        name: name of the source. Sources that are combined in a Bundle must have different names.
        multilabel: whether a row may have any number of labels.
        rationales_are_weak: True if rationales come from a heuristic or a lexicon, not from annotators.
        max_lengths: split -> largest number of tokens in an example. Splits without an entry have the encoder's limit.
        text_is_private: True if the texts must not be written outside the folder of the encoded corpora.

    Example:
        >>> class Reviews(TextSource):
        ...     class_names = ["bad", "good"]
        ...
        ...     def load(self):
        ...         rows = [{"text": "a good film", "labels": 1, "id": "0"}]
        ...         return rows_to_splits({"train": rows, "validation": rows, "test": rows})
        >>> Reviews().load()["test"][0]
        {'text': 'a good film', 'labels': 1, 'id': '0'}
    """

    name: str = ""
    multilabel: bool = False
    rationales_are_weak: bool = False
    max_lengths: Mapping[str, int] = MappingProxyType({})
    text_is_private: bool = False
    init_args: dict[str, Any]  # constructor arguments, defaults included
    work_folder: Path | None = None  # folder for temporary files of `load`; None for the folder of encoded data

    def __new__(cls, *args: Any, **kwargs: Any) -> TextSource:
        self = super().__new__(cls)
        self.init_args = arguments_of(cls, self, args, kwargs)
        return self

    @cached_property
    def class_names(self) -> list[str]:
        """Names of the classes 0, 1, ... A source sets this attribute, or reads it from data in a cached_property."""
        raise ValueError(f"{type(self).__name__} does not define class_names: set this attribute")

    @abstractmethod
    def load(self) -> DatasetDict:
        """Returns the splits. Every process calls `load`, so downloads belong in `prepare`."""

    def release(self) -> None:  # noqa: B027 - most sources keep nothing
        """Frees the rows that `load` keeps. Called after the rows are encoded; a later `load` reads the data again."""

    def row_streams(self) -> Mapping[str, RowStream]:
        """Returns split -> stream of rows. A source whose rows may not fit in memory overrides this method.

        If the mapping is not empty, rows are encoded from the streams, and `load` is not called.
        """
        return {}

    def report(self) -> list[str]:
        """Returns lines of text about the rows that `load` read or left out; [] by default. Call it after `load`."""
        return []

    def load_filler(self) -> dict[str, list[str]]:
        """Returns split -> texts that support no class; {} if the source has no such text. No text is in two splits."""
        return {}

    def prepare(self) -> None:  # noqa: B027 - most sources have nothing to fetch
        """Downloads the files that `load` reads. Called once per node, before any process calls `load`."""

    def files(self) -> list[Path]:
        """Returns the files and folders that `load` reads. If their contents change, the rows are encoded again.

        By default, these are all files whose paths are constructor arguments, and the files of all sources that are
        constructor arguments. A folder whose path is a constructor argument is included only if the name of the
        argument contains "path", "dir", "folder" or "file". A source that reads other files must override this method.
        If a file is missing, `prepare` is called.
        """
        return paths_in(self.init_args)

    def remote_revision(self) -> str:
        """Returns the version of the hub data that `load` reads; "" if `load` reads a fixed version or no hub data."""
        return ""

    def has_weak_rationales(self, split: str) -> bool:
        """Returns whether the rationales of a split come from a heuristic or a lexicon, not from annotators."""
        return self.rationales_are_weak

    def summary(self) -> dict[str, Any]:
        """Returns facts about the data for the log."""
        return {
            "source": type(self).__name__,
            "num_classes": len(self.class_names),
            "multilabel": self.multilabel,
        }


def checked_examples(rows: Dataset, split: str, source: TextSource) -> list[dict[str, Any]]:
    """Checks each row of a split, and returns the rows as dicts.

    Raises:
        ValueError: the split's name is not allowed in file names, or the split is empty, lacks a column, or has a row
            that breaks the format of TextSource.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> rows = rows_to_dataset([{"text": "w1", "labels": 0, "id": "a"}])
        >>> checked_examples(rows, "train", Planted())
        [{'text': 'w1', 'labels': 0, 'id': 'a'}]
    """
    check_split(split, rows.column_names, len(rows), source)
    examples = rows.to_list()
    for example in examples:
        check_example(example, split, len(source.class_names), source.multilabel)
    return examples


def check_split(split: str, columns: Sequence[str], num_rows: int, source: TextSource) -> None:
    """Raises ValueError if a split's name is not allowed in file names, or if the split is empty or lacks a column.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> check_split("train", ["text", "labels", "id"], 8, Planted())
    """
    check_name("a split's name", split)
    missing = [column for column in ("text", "labels", "id") if column not in columns]
    if missing or not num_rows:
        problem = f"lacks column {missing[0]!r}" if missing else "is empty"
        raise ValueError(f"split {split!r} of {type(source).__name__} {problem}")
