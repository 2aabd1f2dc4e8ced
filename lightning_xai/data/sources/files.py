"""Local CSV, TSV, JSON Lines, Parquet and Arrow files with any column names."""

from __future__ import annotations

import json
from abc import abstractmethod
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from datasets import ClassLabel, DatasetDict, load_dataset

from lightning_xai.data.sources.base import TextSource, rows_to_splits
from lightning_xai.functional.spans import spans_from_mask, word_offsets

RationaleFormat = Literal["char_spans", "word_mask"]
_BUILDERS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet", ".arrow": "arrow"}


def word_mask_spans(mask: list[Any], text: str, name: str) -> list[list[int]]:
    """Returns the character spans of the words whose mask is 1.

    Args:
        mask: 0 or 1 for each whitespace word; or a list of such masks, one per annotator. With several annotators,
            a word counts as 1 if at least half of them marked it.
        text: the text.
        name: name of the row, for error messages.

    Raises:
        ValueError: a mask does not have as many values as the text has words.

    Example:
        >>> word_mask_spans([0, 1, 1], "a good film", "row 0")
        [[2, 11]]
    """
    masks = mask if mask and isinstance(mask[0], list) else [mask]
    words = word_offsets(text)
    for annotated in masks:
        if len(annotated) != len(words):
            raise ValueError(f"{name}: rationale has {len(annotated)} values for {len(words)} whitespace words")
    return spans_from_mask(np.mean(masks, axis=0) >= 0.5, words, text) if len(words) else []


class ColumnSource(TextSource):
    """Base of sources that read tables with any column names.

    Texts may be given as lists of words, which are joined by spaces. Labels are class names or class numbers. In
    formats whose cells cannot hold lists (CSV), a rationale is written as JSON, and labels are joined by
    `label_separator`.

    Args:
        text_column, text_pair_column, label_column, rationale_column, id_column: names of the columns; None if the
            table lacks the column. Without an id column, rows are numbered.
        rationale_format: "char_spans" for a list of [begin, end], or of {"label", "spans"} if multi-label; "word_mask"
            for 0 or 1 per whitespace word. A rationale that names no label supports all labels of its row.
        class_names: names of classes 0, 1, ...; None takes the names from the data. They have the order of the
            data set's ClassLabel feature; without this feature they are sorted.
        multilabel: whether a row may have any number of labels.
        label_separator: separates the labels in one string. White space around a label is dropped.
        validation_fraction: fraction of the training rows that becomes the validation split, if the table has none.
        seed: seed of the random choice of validation rows.

    Raises:
        ValueError: `validation_fraction` is out of range. `load` raises it if a column, a label or a class is missing,
            or a rationale does not fit its format or text.

    Example:
        >>> from datasets import Dataset
        >>> class Memory(ColumnSource):
        ...     def load_table(self):
        ...         return DatasetDict({"train": Dataset.from_dict({"text": ["a", "b"], "label": ["yes", "no"]})})
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
            raise ValueError(f"validation_fraction is {validation_fraction}: give a fraction from 0 to less than 1")
        self.columns = {
            "text": text_column, "labels": label_column, "text_pair": text_pair_column, "rationales": rationale_column,
            "id": id_column,
        }  # fmt: skip
        self.rationale_format = rationale_format
        if class_names is not None:
            self.class_names = class_names
        self.multilabel = multilabel
        self.label_separator = label_separator
        self.validation_fraction = validation_fraction
        self.seed = seed

    @abstractmethod
    def load_table(self) -> DatasetDict:
        """Returns the table's splits, named as in TextSource, with the table's own columns."""

    @cached_property
    def _table(self) -> DatasetDict:
        table = self.load_table()
        for split, rows in table.items():
            for column in filter(None, self.columns.values()):
                if column not in rows.column_names:
                    raise ValueError(f"split {split!r} has no column {column!r}; it has {', '.join(rows.column_names)}")
            labels = rows[self.columns["labels"]]
            if not self.multilabel and None in labels:
                row = list(labels).index(None)
                raise ValueError(f"{split} row {row}: label is missing; fill it in or remove the row")
        if "validation" not in table and "train" in table and self.validation_fraction:
            parts = table["train"].train_test_split(self.validation_fraction, seed=self.seed)
            table["train"], table["validation"] = parts["train"], parts["test"]
        return table

    @cached_property
    def _label_values(self) -> list[Any]:
        """The values of the table's label column for classes 0, 1, ..."""
        column = self.columns["labels"]
        feature = next(iter(self._table.values())).features[column]
        if isinstance(getattr(feature, "feature", feature), ClassLabel):
            return list(range(getattr(feature, "feature", feature).num_classes))
        return sorted({value for rows in self._table.values() for cell in rows[column] for value in self._cells(cell)})

    @cached_property
    def class_names(self) -> list[str]:
        feature = next(iter(self._table.values())).features[self.columns["labels"]]
        feature = getattr(feature, "feature", feature)  # in multi-label tables, a list of labels
        return list(feature.names) if isinstance(feature, ClassLabel) else [str(value) for value in self._label_values]

    def _cells(self, cell: Any) -> list[Any]:
        if not self.multilabel:
            return [cell]
        if isinstance(cell, str):
            return [part.strip() for part in cell.split(self.label_separator) if part.strip()]
        return list(cell or [])

    def _label(self, value: Any, name: str) -> int:
        if value in self.class_names:
            return self.class_names.index(value)
        if isinstance(value, int) and str(value) in self.class_names:  # class names may be numbers
            return self.class_names.index(str(value))
        if isinstance(value, int) and 0 <= value < len(self.class_names):
            return value
        raise ValueError(f"{name}: label {value!r} is not in class_names {self.class_names}")

    def prepare(self) -> None:
        self.load_table()  # fills the cache of `datasets`, so that other processes only read it

    def load(self) -> DatasetDict:
        splits = {
            split: [self._row(row, f"{split} row {i}") for i, row in enumerate(rows)]
            for split, rows in self._table.items()
        }
        return rows_to_splits(splits, self.multilabel)

    def _row(self, raw: dict[str, Any], name: str) -> dict[str, Any]:
        cells = {name: raw[column] for name, column in self.columns.items() if column is not None}
        texts = {name: cell for name, cell in cells.items() if name in ("text", "text_pair")}
        row = {name: " ".join(cell) if isinstance(cell, list) else cell for name, cell in texts.items()}
        labels = [self._label(value, name) for value in self._cells(cells["labels"])]
        row["labels"] = labels if self.multilabel else labels[0]
        row["id"] = str(cells.get("id", name.rsplit(" ", 1)[-1]))
        if "rationales" in cells:
            cell = json.loads(cells["rationales"]) if isinstance(cells["rationales"], str) else cells["rationales"]
            row["rationales"] = self._rationales(cell or [], labels, row["text"], name)
        return row

    def _rationales(self, cell: list[Any], labels: list[int], text: str, name: str) -> list[dict[str, Any]]:
        if not cell:
            return []
        if self.rationale_format == "word_mask":
            cell = word_mask_spans(cell, text, name)
        elif isinstance(cell[0], dict):
            return [{"label": self._label(part["label"], name), "spans": part["spans"]} for part in cell]
        elif not isinstance(cell[0], list):
            raise ValueError(
                f"{name}: rationale {str(cell)[:60]} is no list of [begin, end]; correct it, or set rationale_format"
            )
        return [{"label": label, "spans": cell} for label in labels if cell]


def has_rows(path: Path) -> bool:
    """Returns whether a file has a row: a line below the header (CSV, TSV), a line (JSON Lines) or a byte (others).

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "rows.csv")
        ...     _ = path.write_text("text,label\\n")
        ...     has_rows(path)
        False
    """
    if path.suffix not in (".csv", ".tsv", ".jsonl"):
        return path.stat().st_size > 0
    needed = 1 if path.suffix == ".jsonl" else 2
    with path.open(encoding="utf-8") as lines:
        return len(list(islice((line for line in lines if line.strip()), needed))) == needed


class Files(ColumnSource):
    """Rows of local files.

    Args:
        data_files: split -> one file or a list of files. All files have the same kind: csv, tsv, jsonl, json, parquet
            or arrow. Splits with other names than "train", "validation" and "test" are further test splits.
        kwargs: arguments of ColumnSource.

    Raises:
        ValueError: the files are not all of one known kind. `load` raises it if a file is missing or has no rows.

    Example:
        >>> Files({"train": "a.csv"}, label_column="sentiment").columns["labels"]
        'sentiment'
    """

    name = "files"

    def __init__(self, data_files: dict[str, str | list[str]], **kwargs) -> None:
        super().__init__(**kwargs)
        self.data_files = {split: [f] if isinstance(f, str) else list(f) for split, f in data_files.items()}
        self.kinds = sorted({Path(path).suffix for paths in self.data_files.values() for path in paths})
        if len(self.kinds) != 1 or self.kinds[0] not in _BUILDERS:
            raise ValueError(f"data_files end in {self.kinds}; give files of one kind among {', '.join(_BUILDERS)}")

    def load_table(self) -> DatasetDict:
        for path in (path for paths in self.data_files.values() for path in paths):
            if not Path(path).is_file():
                folder = Path(path).parent
                beside = sorted(p.name for p in folder.iterdir())[:10] if folder.is_dir() else []
                raise ValueError(f"file {path} is missing; {folder} has {', '.join(beside) or 'no files'}")
            if not has_rows(Path(path)):
                raise ValueError(f"file {path} has no rows: fill it, or leave its split out of data_files")
        options = {"delimiter": "\t"} if self.kinds == [".tsv"] else {}
        return load_dataset(_BUILDERS[self.kinds[0]], data_files=self.data_files, **options)
