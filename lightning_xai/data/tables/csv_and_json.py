"""Reads the rows of CSV, TSV and JSON files. Cells of CSV and TSV files stay text, even if they look like numbers."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.runs.files.compressed_files import kind_of, open_text
from lightning_xai.runs.files.text_files import codec_of, other_encoding, read_text, text_lines

LONGEST_CELL = 2**31 - 1  # characters; the default limit of the csv module is 131,072


def read_delimited(path: Path, *, delimiter: str, quoting: bool, encoding: str = "utf-8") -> Iterator[dict[str, Any]]:
    """Yields the rows of a CSV or TSV file. Cells become strings, or None if empty. Blank lines are skipped.

    Args:
        path: the file, whose first line names the columns.
        delimiter: separates the cells.
        quoting: whether cells may be in double quotes, and may then contain delimiters and line breaks. Without
            quoting, every line is a row, and a quote is an ordinary character.
        encoding: encoding of the file.

    Raises:
        ValueError: a row has more or fewer cells than there are columns, two columns have the same name, a quote is
            misplaced, or the file is not in the given encoding.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "rows.tsv")
        >>> _ = path.write_text('id\\ttext\\n007\\t"Great", he said\\n008\\tNA\\n')
        >>> list(read_delimited(path, delimiter="\\t", quoting=False))
        [{'id': '007', 'text': '"Great", he said'}, {'id': '008', 'text': 'NA'}]
    """
    columns: list[str] = []
    try:
        for line, cells in _cells(path, delimiter, quoting, encoding):
            if not columns:
                if any("\0" in name for name in cells):
                    raise other_encoding(path, encoding)
                columns = [name or f"Unnamed: {i}" for i, name in enumerate(cells)]
                if len(set(columns)) < len(columns):
                    twice = next(name for name in columns if columns.count(name) > 1)
                    raise ValueError(f"{path}: two columns are called {twice!r}; rename one of these columns")
                continue
            if len(cells) != len(columns):
                raise ValueError(
                    f"{path}, line {line}: {quantity(len(cells), 'cell')} for "
                    f"{quantity(len(columns), 'column')} ({', '.join(columns)}); "
                    + (
                        "put a cell with a delimiter or a line break into double quotes, or name every column in line 1"
                        if quoting
                        else "remove delimiters and line breaks from the cells, or quote them and set `quoting: true`"
                    )
                )
            yield {name: cell or None for name, cell in zip(columns, cells, strict=True)}
    except UnicodeError as error:
        raise other_encoding(path, encoding, error) from error


def _cells(path: Path, delimiter: str, quoting: bool, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, cells) for each row; if a row spans several lines, the number is that of its last line."""
    if not quoting:
        with open_text(path, codec_of(encoding), newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                line = line.removesuffix("\n").removesuffix("\r")
                if line.strip(" "):
                    yield number, line.split(delimiter)
        return
    limit = csv.field_size_limit(LONGEST_CELL)
    try:
        with open_text(path, codec_of(encoding), newline="") as lines:
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
            for cells in reader:
                if len(cells) > 1 or "".join(cells).strip(" "):
                    yield reader.line_num, cells
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.line_num}: {error}; write each quote in a quoted cell twice, or set `quoting: false`"
        ) from error
    finally:
        csv.field_size_limit(limit)


def read_json_rows(path: Path, *, encoding: str = "utf-8", field: str | None = None) -> Iterator[dict[str, Any]]:
    """Yields the rows of a JSON file: one object per line, a list of objects, or an object of column name -> cells.

    A file with one object per line is read line by line. Any other file is read as a whole.

    Args:
        path: the file.
        encoding: encoding of the file.
        field: if the file is one object, the key under which it holds the rows. None if the file holds only rows.

    Raises:
        ValueError: the file is not JSON in this encoding, has none of these three forms, or lacks `field`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "rows.jsonl")
        >>> _ = path.write_text('{"text": "null", "label": 1.0}\\n{"text": "2020-01-01", "label": 0}\\n')
        >>> list(read_json_rows(path))
        [{'text': 'null', 'label': 1.0}, {'text': '2020-01-01', 'label': 0}]
        >>> _ = path.write_text('{"version": 2, "data": [{"text": "good", "label": 1}]}')
        >>> list(read_json_rows(path, field="data"))
        [{'text': 'good', 'label': 1}]
    """
    is_by_line = field is None and _has_a_row_per_line(path, encoding)
    values = _values_of_lines(path, encoding) if is_by_line else _values_of_whole(path, encoding, field)
    for number, (row, has_escapes) in enumerate(values):
        if not isinstance(row, dict):
            raise ValueError(
                f"{path}, row {number}: {str(row)[:60]} is not a JSON object; write each row as an object with a value "
                "for each column"
            )
        if has_escapes:
            _check_characters(row, number, path)
        yield row


def _values_of_lines(path: Path, encoding: str) -> Iterator[tuple[Any, bool]]:
    """Yields the value of each line, and whether the line may contain an escaped surrogate (half a character)."""
    for number, line in enumerate(text_lines(path, encoding), start=1):
        if line.strip():
            yield _parsed(line, path, number), _has_escapes(line)


def _values_of_whole(path: Path, encoding: str, field: str | None) -> Iterator[tuple[Any, bool]]:
    content = read_text(path, encoding)
    value, has_escapes = (
        _parsed(content, path) if field is None else _under(field, content, path),
        _has_escapes(content),
    )
    yield from ((row, has_escapes) for row in _rows_of(value))


def _has_escapes(text: str) -> bool:
    return "\\ud" in text or "\\uD" in text


def _has_a_row_per_line(path: Path, encoding: str) -> bool:
    """Returns whether each line of a file seems to be a JSON value. If not, the file is read as a single value."""
    lines = (line.strip() for line in text_lines(path, encoding) if line.strip())
    first = next(lines, "")
    if first.startswith("["):
        return False
    if kind_of(path) != ".json" or not first:
        return True
    if next(lines, None) is None:
        return False
    try:
        json.loads(first)
    except (RecursionError, ValueError):
        return False
    return True


def _parsed(text: str, path: Path, number: int | None = None) -> Any:
    """Parses a JSON value. `number` is the line of the value in the file, or None if the value is the whole file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno if number is None else number}: {error.msg} (column {error.colno})"
    except (RecursionError, ValueError) as error:  # brackets are nested too deeply, or a number has too many digits
        problem = "brackets are nested too deeply" if isinstance(error, RecursionError) else str(error).split(";")[0]
        place = f"line {number or 1}: {problem}"
    remedy = "write one JSON object per line" if number is not None else "correct it, or write the file again"
    raise ValueError(f"{path}, {place}; {remedy}")


def _under(field: str, content: str, path: Path) -> Any:
    value = _parsed(content, path)
    keys = list(value) if isinstance(value, dict) else []
    if field not in keys:
        has = (
            f"an object with the keys {', '.join(map(str, keys))[:100]}"
            if keys
            else f"not an object, but {content[:30]!r}"
        )
        raise ValueError(f"{path} has no key {field!r}: it is {has}; set `field` to one of its keys, or remove `field`")
    return value[field]


def _rows_of(value: Any) -> list[Any]:
    """Returns the rows of a JSON value, which is a list of rows, an object with a list per column, or a single row."""
    if isinstance(value, list):
        return value
    lists = list(value.values()) if isinstance(value, dict) else []
    if lists and all(isinstance(column, list) for column in lists) and len({len(column) for column in lists}) == 1:
        names = list(value)
        if all(isinstance(cell, (str, int, float)) or cell is None for column in lists for cell in column):
            return [dict(zip(names, cells, strict=True)) for cells in zip(*lists, strict=True)]
    return [value]


def _check_characters(row: dict[str, Any], number: int, path: Path) -> None:
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ValueError(
            f"{path}, row {number}: {half} is half of a surrogate pair; write the whole character, or remove it"
        ) from error
