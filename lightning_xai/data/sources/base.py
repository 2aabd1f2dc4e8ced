"""The interface of every data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict, Features, List, Value

from lightning_xai.functional.spans import check_spans


def rows_to_dataset(rows: list[dict[str, Any]], multilabel: bool = False) -> Dataset:
    """Returns rows of TextSource's columns as a data set in memory; a row may lack a column that another has."""
    features = {
        "text": Value("string"),
        "text_pair": Value("string"),
        "labels": List(Value("int64")) if multilabel else Value("int64"),
        "rationales": List({"label": Value("int64"), "spans": List(List(Value("int64")))}),
        "id": Value("string"),
    }
    used = [name for name in features if any(name in row for row in rows)]
    columns = {name: [row.get(name) for row in rows] for name in used}
    return Dataset.from_dict(columns, features=Features({name: features[name] for name in used}))


def split_rows(num_rows: int, validation_fraction: float, test_fraction: float, seed: int) -> dict[str, np.ndarray]:
    """Returns a random partition of the rows into train, validation and test."""
    order = np.random.default_rng(seed).permutation(num_rows)
    num_test, num_validation = round(test_fraction * num_rows), round(validation_fraction * num_rows)
    parts = np.split(order, [num_test, num_test + num_validation])
    return {"train": np.sort(parts[2]), "validation": np.sort(parts[1]), "test": np.sort(parts[0])}


class TextSource(ABC):
    """Rows of text with labels and, where the data has them, rationales.

    Columns of every split that `load` returns:
        text (str), text_pair (str, optional),
        labels (int; a list of int if `multilabel`),
        rationales (optional): a list of {"label": int, "spans": list of [begin, end]} with character offsets into
            `text`, end exclusive; `label` is the class that the evidence speaks for,
        id (str): the row's name in its source.
    Splits: "train", "validation", "test", and any further test splits under names of their own.
    """

    class_names: list[str]
    name: str = ""  # tells apart the sources that are mixed in one data set
    multilabel: bool = False
    rationales_are_weak: bool = False  # True where spans come from a heuristic or lexicon, not from annotators

    @abstractmethod
    def load(self) -> DatasetDict:
        """Returns the splits. Called after construction, on every process; downloads belong in `prepare`."""

    def load_filler(self) -> dict[str, list[str]]:
        """Returns texts by split that speak for no class, if the source has any; no text is in two splits."""
        return {}

    def prepare(self) -> None:  # noqa: B027 - most sources have nothing to fetch
        """Fetches what `load` needs; called once a node, before any process loads."""

    def summary(self) -> dict[str, Any]:
        """Returns facts about the data worth logging."""
        return {
            "source": type(self).__name__,
            "num_classes": len(self.class_names),
            "multilabel": self.multilabel,
            "rationales_are_weak": self.rationales_are_weak,
        }


def check_example(example: dict[str, Any], split: str, num_classes: int, multilabel: bool) -> None:
    """Raises ValueError, naming the row, unless the example is as TextSource promises."""
    where = f"{split} row {example['id']!r}"
    if not isinstance(example["text"], str):
        raise ValueError(f"{where}: text is {example['text']!r}, not a string; correct or remove the row")
    labels = example["labels"]
    if isinstance(labels, list) != multilabel:
        kinds = ("a list of classes", "multi-label") if multilabel else ("an integer", "single-label")
        raise ValueError(f"{where}: labels is {labels!r}, not {kinds[0]}, though the source is {kinds[1]}")
    rationales = example.get("rationales") or []
    for label in [*(labels if multilabel else [labels]), *(rationale["label"] for rationale in rationales)]:
        if not isinstance(label, int) or not 0 <= label < num_classes:
            raise ValueError(
                f"{where}: label {label!r} is not one of the {num_classes} classes (0-{num_classes - 1}); "
                "correct it, or add its class to the source"
            )
    for rationale in rationales:
        check_spans(rationale["spans"], example["text"], where)


def checked_examples(rows: Dataset, split: str, source: TextSource) -> list[dict[str, Any]]:
    """Returns the rows of a split as dicts.

    Raises:
        ValueError: there is no row, a column is missing, or a row is not as TextSource promises.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> rows = rows_to_dataset([{"text": "w1", "labels": 0, "id": "a"}])
        >>> checked_examples(rows, "train", Planted())
        [{'text': 'w1', 'labels': 0, 'id': 'a'}]
    """
    missing = [column for column in ("text", "labels", "id") if column not in rows.column_names]
    if missing or not len(rows):
        problem = f"lacks column {missing[0]!r}" if missing else "is empty"
        raise ValueError(f"split {split!r} of {type(source).__name__} {problem}")
    examples = rows.to_list()
    for example in examples:
        check_example(example, split, len(source.class_names), source.multilabel)
    return examples
