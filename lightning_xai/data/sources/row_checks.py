"""Checks the rows of a data source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning_xai.data.tables.rationale_cells import is_whole, rationale_parts, whole_spans
from lightning_xai.functional.text.spans import check_spans


def check_given_row(row: Any, multilabel: bool) -> None:
    """Checks the types of a row before it is stored in a Hugging Face Dataset, which would turn a label 1.7 into 1.

    Raises:
        ValueError: the row is not a dict; its labels or rationales do not have the format that TextSource describes; or
            a class number or an end of a span is not a whole number.

    Example:
        >>> check_given_row({"text": "good", "labels": 1, "id": "a"}, multilabel=False)
    """
    if not isinstance(row, Mapping) and not hasattr(row, "get"):  # a row of a pandas table has `get`, too
        raise ValueError(f"row {str(row)[:60]} is not a dict: write {{'text': ..., 'labels': ..., 'id': ...}}")
    where, labels = f"row {row.get('id')!r}", row.get("labels")
    if isinstance(labels, list | int):
        require_label_kind(labels, multilabel, where)
    rationales = rationale_parts(row.get("rationales"), where)
    for label in [*(labels if isinstance(labels, list) else [labels]), *(part["label"] for part in rationales)]:
        if label is not None and not isinstance(label, bool) and not is_whole(label):
            raise ValueError(f"{where}: label {label!r} is not a class number; give an integer")
    for part in rationales:
        whole_spans(part["spans"], where)


def check_example(example: dict[str, Any], split: str, num_classes: int, multilabel: bool) -> None:
    """Checks the types, labels and spans of a row.

    Raises:
        ValueError: the row breaks the format that TextSource describes; the message names the row.

    Example:
        >>> check_example({"text": "good", "labels": 1, "id": "a"}, "train", num_classes=2, multilabel=False)
    """
    where = f"{split} row {example['id']!r}"
    if not isinstance(example["text"], str):
        raise ValueError(f"{where}: text is {example['text']!r}, not a string; correct or remove the row")
    labels = example["labels"]
    require_label_kind(labels, multilabel, where)
    rationales = rationale_parts(example.get("rationales"), where)
    for label in [*(labels if multilabel else [labels]), *(rationale["label"] for rationale in rationales)]:
        if not isinstance(label, int) or not 0 <= label < num_classes:
            raise ValueError(
                f"{where}: label {label!r} is not one of the {num_classes} classes (0-{num_classes - 1}); "
                "correct the label, or add its class to the source"
            )
    for rationale in rationales:
        check_spans(rationale["spans"], example["text"], where)


def require_label_kind(labels: Any, multilabel: bool, location: str) -> None:
    """Raises ValueError if labels are not a list in multi-label data, or are a list in single-label data.

    Example:
        >>> require_label_kind([1], False, "row 0")
        Traceback (most recent call last):
        ValueError: row 0: labels is [1], not an integer, though the source is single-label
    """
    if isinstance(labels, list) != multilabel:
        kinds = ("a list of classes", "multi-label") if multilabel else ("an integer", "single-label")
        raise ValueError(f"{location}: labels is {labels!r}, not {kinds[0]}, though the source is {kinds[1]}")
