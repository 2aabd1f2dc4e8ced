"""Base class of sources that read tables. Its arguments name the columns with texts, labels and rationales."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from datasets import ClassLabel, Dataset, DatasetDict

from lightning_xai.data.sources.base import TextSource
from lightning_xai.data.sources.row_stream import Rows, RowStream, read_rows
from lightning_xai.data.tables.column_checks import check_label_cell, missing_column
from lightning_xai.data.tables.labels import ClassNumbers, cell_text, infer_class_names, unknown_label, whole_number
from lightning_xai.data.tables.rationale_cells import rationale_cell, whole_spans, word_mask_spans
from lightning_xai.data.tables.stored_rows import stored_rows
from lightning_xai.functional.classes.class_names import comparable_names
from lightning_xai.functional.text.quantity import quantity

RationaleFormat = Literal["char_spans", "word_mask"]


@dataclass(frozen=True)
class _TableSplit:
    """The rows of a split, and the class names of its label column (None if the column has no named classes)."""

    rows: Rows | list[dict[str, Any]]
    label_names: list[str] | None


class ColumnSource(TextSource):
    """Base class of sources that read tables whose columns may have any names.

    Texts may be given as lists of words, which are joined by spaces. Labels are class names or class numbers. In CSV
    files, whose cells cannot hold lists, a rationale is written as JSON, and `label_separator` separates several labels
    in a cell. Only a cell without any characters is empty: the words null, None, NA and nan are ordinary text.

    Labels and ids are read as text, so 01 stays "01". A label that is one of the class names means the class with this
    name. If no class name is a number, a label that is a whole number means the class with this index, counted from 0.
    If all class names are whole numbers, labels are compared with them as numbers: 1.0 means the class "1".

    Args:
        text_column, text_pair_column, label_column, rationale_column, id_column: names of the columns; None if the
            table lacks the column. Without an id column, the id of a row is its row number in the split, from 0.
        rationale_format: "char_spans" if a cell is a list of [begin, end], or of objects with the keys "label" and
            "spans"; "word_mask" if a cell is a list with 0 or 1 for each whitespace word. A rationale without a label
            supports all labels of its row.
        class_names: names of the classes 0, 1, ...; by default, the names in the label column's ClassLabel feature.
            Without such a feature, they are the sorted labels of the training split, or of all splits if there is no
            training split.
        multilabel: whether a row may have any number of labels.
        label_separator: separates the labels in a cell that is a string. White space around a label is dropped.
        validation_fraction: fraction of the training rows that become the validation split, if the table lacks one.
        seed: seed of the random choice of validation rows.

    Raises:
        ValueError: `validation_fraction` is out of range, or a class name is repeated. `load` raises the error if a
            column, a text or a label is missing, if a label names no class, or if a rationale breaks its format or
            lies outside its text.

    Example:
        >>> class Memory(ColumnSource):
        ...     def load_table(self):
        ...         return {"train": [{"text": "a", "label": "yes"}, {"text": "null", "label": "no"}]}
        >>> source = Memory(validation_fraction=0.5)
        >>> source.class_names, len(source.load()["validation"])
        (['no', 'yes'], 1)
    """

    def __init__(
        self,
        text_column: str = "text",
        label_column: str = "label",
        text_pair_column: str | None = None,
        rationale_column: str | None = None,
        rationale_format: RationaleFormat = "char_spans",
        id_column: str | None = None,
        class_names: list[str] | None = None,
        multilabel: bool = False,
        label_separator: str = ";",
        validation_fraction: float = 0.1,
        seed: int = 0,
    ) -> None:
        if not 0 <= validation_fraction < 1:
            raise ValueError(
                f"validation_fraction is {validation_fraction}: give a fraction of at least 0 and less than 1"
            )
        self.columns = {
            "text": text_column, "labels": label_column, "text_pair": text_pair_column, "rationales": rationale_column,
            "id": id_column,
        }  # fmt: skip
        self.rationale_format = rationale_format
        self._classes_are_given = class_names is not None
        if class_names is not None:
            ClassNumbers(class_names)  # raises ValueError if a name is repeated
            self.class_names = class_names
        self.multilabel = multilabel
        self.label_separator = label_separator
        self.validation_fraction = validation_fraction
        self.seed = seed

    @abstractmethod
    def load_table(self) -> Mapping[str, Rows | list[dict[str, Any]]]:
        """Returns split -> rows with the columns of the table. The splits are named as in TextSource."""

    @cached_property
    def _table(self) -> dict[str, _TableSplit]:
        return {split: self._table_split(rows, split) for split, rows in self.load_table().items()}

    def _table_split(self, rows: Rows | list[dict[str, Any]], split: str) -> _TableSplit:
        used = [column for column in self.columns.values() if column is not None]
        names = list(dict.fromkeys(key for row in rows for key in row)) if isinstance(rows, list) else rows.column_names
        for role, column in self.columns.items():
            if column is not None and column not in names:
                only_row = list(read_rows(rows)) if isinstance(rows, RowStream) and len(rows) == 1 else rows
                raise ValueError(missing_column(split, role, column, only_row, names))
        if not isinstance(rows, Dataset):
            return _TableSplit(rows, None)
        feature = rows.features[self.columns["labels"]]
        # a multi-label column has a feature for its lists, which contains the feature with the class names
        feature = getattr(feature, "feature", feature)
        names = list(feature.names) if isinstance(feature, ClassLabel) else None
        # `with_format(None)` gives plain Python values, even if the data set on disk is set to return tensors
        return _TableSplit(rows.select_columns(list(dict.fromkeys(used))).with_format(None), names)

    def _rows(self, split: str) -> Iterator[dict[str, Any]]:
        rows = self._table[split].rows
        return iter(rows) if isinstance(rows, list) else read_rows(rows)

    @property
    def _first_split(self) -> str:
        """The training split or, without it, the first split. Its ClassLabel feature, if any, names the classes."""
        return "train" if "train" in self._table else next(iter(self._table))

    @cached_property
    def class_names(self) -> list[str]:
        table = self._table
        names = table[self._first_split].label_names
        if names is not None:
            return names
        splits = ["train"] if "train" in table else list(table)
        return infer_class_names(label for split in splits for label in self._labels(split))

    def _labels(self, split: str) -> Iterator[str]:
        """Yields the labels of all rows of a split, as text."""
        for i, row in enumerate(self._rows(split)):
            yield from self._cells(row, split, f"{split} row {i}")

    def _cells(self, row: dict[str, Any], split: str, location: str) -> list[str]:
        """Returns the labels of a row as text."""
        cell = row.get(str(self.columns["labels"]))
        if isinstance(cell, list) and not self.multilabel:
            raise ValueError(
                f"{location}: label is the list {str(cell)[:60]}; set `multilabel: true`, or give one label"
            )
        check_label_cell(cell, location, self.label_separator, self.class_names if self._classes_are_given else ())
        if self.multilabel and isinstance(cell, str):
            parts: list[Any] = [part.strip() for part in cell.split(self.label_separator) if part.strip()]
        else:
            parts = cell if isinstance(cell, list) else [] if self.multilabel and cell_text(cell) is None else [cell]
        texts = [cell_text(part) for part in parts]
        if None in texts:
            raise ValueError(f"{location}: label is missing; fill it in or remove the row")
        return [self._named(text, split) for text in texts if text is not None]

    def _named(self, label: str, split: str) -> str:
        """Returns the label's class name in the column's ClassLabel feature or, if there is none, the label itself."""
        names, number = self._table[split].label_names, whole_number(label)
        if names is None or number is None or not 0 <= number < len(names):
            return label
        return names[number]

    @cached_property
    def _numbers(self) -> dict[str, ClassNumbers]:
        """Split -> object that finds the class of a label in this split."""
        numbers = ClassNumbers(self.class_names)
        return {
            split: _classes_of_names(part.label_names, self.class_names) if part.label_names else numbers
            for split, part in self._table.items()
        }

    def _label(self, label: str, split: str, location: str) -> int:
        number = self._numbers[split].find(label)
        if number is None:
            from_train = not self._classes_are_given and self._table[self._first_split].label_names is None
            raise ValueError(
                unknown_label(label, self.class_names, location, are_from_train=from_train and "train" in self._table)
            )
        return number

    def prepare(self) -> None:
        self.load_table()  # fills the cache of `datasets`, so that other processes only read from it

    def load(self) -> DatasetDict:
        table = DatasetDict({split: self._stored(split) for split in self._table})
        if "validation" not in table and "train" in table and self.validation_fraction:
            num_train = len(table["train"])
            if num_train <= math.ceil(self.validation_fraction * num_train):
                raise ValueError(
                    f"split 'train' has {quantity(num_train, 'row')}, too few for a validation_fraction of "
                    f"{self.validation_fraction}: add rows, give a validation split, or set `validation_fraction: 0`"
                )
            numbers = Dataset.from_dict({"row": np.arange(num_train)})
            parts = numbers.train_test_split(self.validation_fraction, seed=self.seed)
            rows = table["train"]
            for split, part in (("train", "train"), ("validation", "test")):
                table[split] = rows.select(parts[part].with_format("numpy")["row"][:])
        return table

    def _stored(self, split: str) -> Dataset:
        rows = (self._row(row, split, f"{split} row {i}", i) for i, row in enumerate(self._rows(split)))
        columns = [role for role, column in self.columns.items() if column is not None or role == "id"]
        return stored_rows(rows, columns, multilabel=self.multilabel, folder=self.work_folder)

    def release(self) -> None:
        for name in ("_table", "_numbers"):
            vars(self).pop(name, None)

    def _row(self, raw: dict[str, Any], split: str, location: str, number: int) -> dict[str, Any]:
        cells = {name: raw.get(column) for name, column in self.columns.items() if column is not None}
        row: dict[str, Any] = {
            name: _text(cells[name], name, location) for name in ("text", "text_pair") if name in cells
        }
        labels = [self._label(label, split, location) for label in self._cells(raw, split, location)]
        row["labels"] = labels if self.multilabel else labels[0]
        row["id"] = cell_text(cells.get("id")) or str(number)
        if "rationales" in cells:
            cell = rationale_cell(cells["rationales"], location)
            row["rationales"] = self._rationales(cell, labels, row["text"], split, location)
        return row

    def _rationales(
        self, cell: list[Any], labels: list[int], text: str, split: str, location: str
    ) -> list[dict[str, Any]]:
        if not cell:
            return []
        if self.rationale_format == "word_mask":
            spans = word_mask_spans(cell, text, location)
        elif isinstance(cell[0], dict):
            return [self._named_rationale(part, split, location) for part in cell]
        elif not isinstance(cell[0], list):
            raise ValueError(
                f"{location}: rationale {str(cell)[:60]} is not a list of [begin, end] spans; write [[begin, end], "
                "...], or set `rationale_format: word_mask` for 0 or 1 per word"
            )
        else:
            spans = whole_spans(cell, location)
        return [{"label": label, "spans": spans} for label in labels if spans]

    def _named_rationale(self, part: Any, split: str, location: str) -> dict[str, Any]:
        label = cell_text(part.get("label")) if isinstance(part, dict) else None
        if label is None:
            raise ValueError(
                f"{location}: rationale {str(part)[:60]} has no label; write label and spans in every object"
            )
        return {
            "label": self._label(self._named(label, split), split, location),
            "spans": whole_spans(part.get("spans"), location),
        }


def _classes_of_names(names: list[str], class_names: list[str]) -> ClassNumbers:
    """Returns a ClassNumbers that maps each of a column's class names to the class with the same name.

    Names without such a class are left out. If none of the names is a class, the names are mapped by their position.
    """
    theirs, ours = comparable_names(names, class_names)
    by_name = {name: ours.index(same) for name, same in zip(names, theirs, strict=True) if same in ours}
    return ClassNumbers.of_names(by_name or {name: i for i, name in enumerate(names[: len(class_names)])})


def _text(cell: Any, column: str, location: str) -> str:
    """Returns the text of a cell. If the cell is a list of words, joins them by spaces.

    Raises:
        ValueError: the cell is empty, or holds something other than text, such as a JSON object.
    """
    if isinstance(cell, list) and all(isinstance(word, str) for word in cell):
        cell = " ".join(cell)
    if cell is None or cell == "" or cell != cell:
        raise ValueError(f"{location}: {column} is missing; fill it in or remove the row")
    if isinstance(cell, (list, dict, bytes)):
        raise ValueError(f"{location}: {column} is {str(cell)[:60]}, not a string; write a string or remove the row")
    return str(cell)
