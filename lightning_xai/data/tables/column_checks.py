"""Error messages for tables that lack a column or have wrong cells in the label column."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any

ARGUMENTS = {  # role of a column -> argument of ColumnSource that names the column
    "text": "text_column", "labels": "label_column", "text_pair": "text_pair_column", "rationales": "rationale_column",
    "id": "id_column",
}  # fmt: skip


def missing_column(split: str, role: str, column: str, rows: Any, existing: Sequence[str]) -> str:
    """Returns the error message for a column that a table lacks.

    Args:
        split: split of the table.
        role: role of the column, a key of ARGUMENTS.
        column: name of the column.
        rows: rows of the table. If they are a list of one row, and a column of this row seems to hold the actual rows,
            the message names this column.
        existing: names of the columns that the table has.

    Example:
        >>> missing_column("train", "labels", "label", [{"text": "a", "stars": 1}], ["text", "stars"])
        "split 'train' has no column 'label'; it has text, stars: set label_column to one of them, or add the column"
        >>> missing_column("test", "labels", "label", [{"text": "a"}], ["text"])
        "split 'test' has no column 'label'; it has text: set label_column to one of them, or add the column; \
run.py explain --file predicts texts without labels"
        >>> missing_column("train", "text", "text", [{"text;label": "a;b"}], ["text;label"])
        "split 'train' has no column 'text'; it has text;label: separate the cells by commas, or by tabs in a .tsv file"
        >>> missing_column("train", "text", "text", [{"data": [{"text": "a"}]}], ["data"])
        "split 'train' has no column 'text'; it has data: set `field: data`, where the rows seem to be"
    """
    remedy = f"set {ARGUMENTS[role]} to one of them, or add the column"
    if role == "labels" and split != "train":
        remedy += "; run.py explain --file predicts texts without labels"
    if len(existing) == 1 and any(separator in existing[0] for separator in ";|\t"):
        remedy = "separate the cells by commas, or by tabs in a .tsv file"
    elif isinstance(rows, list) and len(rows) == 1:
        nested = [
            name for name, cell in rows[0].items() if isinstance(cell, list) and cell and isinstance(cell[0], dict)
        ]
        if nested:
            remedy = f"set `field: {nested[0]}`, where the rows seem to be"
    shown = ", ".join(existing[:20]) + (f" and {len(existing) - 20} others" if len(existing) > 20 else "")
    return f"split {split!r} has no column {column!r}; it has {shown}: {remedy}"


def check_label_cell(cell: Any, location: str, separator: str, class_names: Collection[str]) -> None:
    """Raises ValueError if a label in a cell is an object, bytes or a nested list, or if it is a list written as text.

    Args:
        cell: cell of a label column.
        location: place of the cell, for the start of the message.
        separator: separates several labels in one string.
        class_names: class names that the user gave. A label that is one of these names is never taken for a list.

    Example:
        >>> check_label_cell(["x", 1], "row 0", ";", ())
        >>> check_label_cell({"x": 1}, "row 0", ";", ())
        Traceback (most recent call last):
        ValueError: row 0: label {'x': 1} is neither a class name nor a number; correct it
        >>> check_label_cell("['x', 'y']", "row 0", ";", ())
        Traceback (most recent call last):
        ValueError: row 0: label "['x', 'y']" is a list written as text; write x;y and set `multilabel: true`
    """
    for part in cell if isinstance(cell, list) else [cell]:
        if isinstance(part, (list, dict, bytes)):
            raise ValueError(f"{location}: label {str(part)[:60]} is neither a class name nor a number; correct it")
        if isinstance(part, str) and part.startswith("[") and part not in class_names:
            names = _written_list(part)
            if names is not None:
                listed = separator.join(map(str, names))[:60]
                raise ValueError(
                    f"{location}: label {part[:60]!r} is a list written as text; write {listed} and set "
                    "`multilabel: true`"
                )


def _written_list(text: str) -> list[Any] | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list) else None
