"""Reads the rows of CSV, TSV and JSON files as they stand there: no cell is guessed to be a number or to be missing."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONGEST_CELL = 2**31 - 1  # characters; the default limit of csv is 131,072


def read_delimited(path: Path, *, delimiter: str, quoting: bool) -> list[dict[str, Any]]:
    """Returns the rows of a CSV or TSV file. A cell is a string, or None if it is empty. Blank lines are skipped.

    Args:
        path: the file, in UTF-8, whose first line names the columns.
        delimiter: separates the cells.
        quoting: whether cells may be in double quotes, and may then contain delimiters and line breaks. Without
            quoting, every line is a row and quotes are characters like any other.

    Raises:
        ValueError: a row does not have one cell for each column, a quote is wrong, or the file is not UTF-8.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "rows.tsv")
        >>> _ = path.write_text('id\\ttext\\n007\\t"Great", he said\\n008\\tNA\\n')
        >>> read_delimited(path, delimiter="\\t", quoting=False)
        [{'id': '007', 'text': '"Great", he said'}, {'id': '008', 'text': 'NA'}]
    """
    rows: list[dict[str, Any]] = []
    columns: list[str] = []
    try:
        for line, cells in _cells(path, delimiter, quoting):
            if not columns:
                columns = [name or f"Unnamed: {i}" for i, name in enumerate(cells)]
                if len(set(columns)) < len(columns):
                    twice = next(name for name in columns if columns.count(name) > 1)
                    raise ValueError(f"{path}: two columns are called {twice!r}; rename one of them")
                continue
            if len(cells) != len(columns):
                raise ValueError(
                    f"{path}, line {line}: {len(cells)} cells for {len(columns)} columns ({', '.join(columns)}); "
                    + (
                        "put a cell with a delimiter or a line break into double quotes"
                        if quoting
                        else "remove delimiters and line breaks from the cells, or set quoting: true for quoted cells"
                    )
                )
            rows.append({name: cell or None for name, cell in zip(columns, cells, strict=True)})
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    return rows


def _cells(path: Path, delimiter: str, quoting: bool) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of the line on which a row ends, and the row's cells."""
    if not quoting:
        with path.open(encoding="utf-8-sig", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                line = line.removesuffix("\n").removesuffix("\r")
                if line.strip(" "):
                    yield number, line.split(delimiter)
        return
    limit = csv.field_size_limit(LONGEST_CELL)
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
            for cells in reader:
                if len(cells) > 1 or "".join(cells).strip(" "):
                    yield reader.line_num, cells
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.line_num}: {error}; double a quote inside a quoted cell, or set quoting: false"
        ) from error
    finally:
        csv.field_size_limit(limit)


def read_json(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a JSON file: an object on each line, a list of objects, or an object of equally long lists.

    Raises:
        ValueError: the file is not JSON, has another form, or is not UTF-8.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "rows.jsonl")
        >>> _ = path.write_text('{"text": "null", "label": 1.0}\\n{"text": "2020-01-01", "label": 0}\\n')
        >>> read_json(path)
        [{'text': 'null', 'label': 1.0}, {'text': '2020-01-01', 'label': 0}]
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    rows = _whole(content) if content.lstrip().startswith("[") or path.suffix == ".json" else None
    if rows is None:
        rows = []
        for number, line in enumerate(content.split("\n"), start=1):
            if line.strip():
                try:
                    rows.append(json.loads(line))
                except json.JSONDecodeError as error:
                    raise ValueError(f"{path}, line {number}: {error}; write one JSON object a line") from error
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ValueError(f"{path}, row {number}: {str(row)[:60]} is no JSON object with a value for each column")
    return rows


def _whole(content: str) -> list[Any] | None:
    """Returns the rows of a file that is one JSON value; None if it is not."""
    try:
        value = json.loads(content)
    except json.JSONDecodeError:
        return None
    if isinstance(value, list):
        return value
    lists = list(value.values()) if isinstance(value, dict) else []
    if lists and all(isinstance(column, list) for column in lists) and len({len(column) for column in lists}) == 1:
        names = list(value)
        if all(isinstance(cell, (str, int, float)) or cell is None for column in lists for cell in column):
            return [dict(zip(names, cells, strict=True)) for cells in zip(*lists, strict=True)]
    return [value]
