"""Reads the tables of MIMIC-III 1.4, as csv or csv.gz, row by row. No error message quotes the text of a note."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lightning_xai.data.clinical.row_ids import RowIds
from lightning_xai.runs.files.compressed_files import open_text
from lightning_xai.runs.files.text_files import other_encoding

LONGEST_CELL = 2**24  # characters; some notes exceed the default limit of the csv module, 131,072
ACCESS = (
    "MIMIC-III 1.4 is at https://physionet.org/content/mimiciii/1.4/; access requires a PhysioNet account, the CITI "
    "course on human subjects and a signed data use agreement"
)
# the columns of NOTEEVENTS, DIAGNOSES_ICD and PROCEDURES_ICD
OF_MIMIC_III = {
    "ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY", "DESCRIPTION", "CGID",
    "ISERROR", "TEXT", "SEQ_NUM", "ICD9_CODE",
}  # fmt: skip
OF_MIMIC_IV = {"icd_code", "icd_version", "note_id", "note_seq"}  # columns that MIMIC-IV has, but not MIMIC-III
DECIMAL = re.compile(r"\d+\.0*")


def find_table(folder: Path, name: str) -> Path:
    """Returns the file {name}.csv or {name}.csv.gz in a folder. Upper and lower case do not matter.

    Raises:
        ValueError: the file is missing, or the folder holds MIMIC-IV.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = Path(folder, "noteevents.csv").write_text("")
        >>> find_table(folder, "NOTEEVENTS").name
        'noteevents.csv'
    """
    files = {path.name.lower(): path for path in sorted(folder.iterdir())} if folder.is_dir() else {}
    for file in (f"{name.lower()}.csv", f"{name.lower()}.csv.gz"):
        if file in files and files[file].is_file():
            return files[file]
    if any(file.startswith("discharge.csv") for file in files):
        raise ValueError(f"{folder} holds notes of MIMIC-IV, not of MIMIC-III 1.4: {ACCESS}")
    raise ValueError(f"{folder} has neither {name}.csv nor {name}.csv.gz: {ACCESS}")


def read_table_rows(folder: Path, name: str, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (location, {column: value}) for every row of {name}.csv or {name}.csv.gz, without loading the whole file.

    The location of a row is its file and line, for messages.

    Args:
        folder: folder of the tables.
        name: name of the table.
        columns: the columns to return, in upper case. The file may spell them in any case.

    Raises:
        ValueError: the file is missing, cut off or not UTF-8, is a table of MIMIC-IV, or lacks a column; or a row has
            more or fewer cells than the header. The message names file and line.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "NOTES.csv").write_text("id,text\\n7,stable\\n")
        ...     [row for _, row in read_table_rows(Path(folder), "NOTES", ["TEXT"])]
        [{'TEXT': 'stable'}]
    """
    path = find_table(folder, name)
    limit = csv.field_size_limit(LONGEST_CELL)
    line = 0
    try:
        with open_text(path, "utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            header = [cell.strip().upper() for cell in next(rows, [])]
            places = _places(header, columns, path)
            for row in rows:
                line = rows.line_num
                if len(row) != len(header):
                    raise ValueError(
                        f"{path}, line {line}: {len(row)} columns, not {len(header)}; the file is cut off or damaged"
                    )
                yield f"{path}, line {line}", {column: row[place] for column, place in places}
    except csv.Error as error:
        raise ValueError(f"{path}, after line {line}: {error}; the file is cut off or damaged") from error
    except UnicodeError as error:
        raise other_encoding(path, "utf-8", error, has_option=False) from None  # the cause would show a note's text
    finally:
        csv.field_size_limit(limit)


def _places(header: list[str], columns: Sequence[str], path: Path) -> list[tuple[str, int]]:
    missing = [column for column in columns if column not in header]
    if not missing:
        return [(column, header.index(column)) for column in columns]
    if OF_MIMIC_IV.intersection(name.lower() for name in header):
        raise ValueError(f"{path} is a table of MIMIC-IV, not of MIMIC-III 1.4: {ACCESS}")
    if not header:
        raise ValueError(f"{path} is empty: copy it again; {ACCESS}")
    # the first line may be part of a note or a row of codes. So the message quotes only names of MIMIC-III's columns
    known = [name for name in header if name in OF_MIMIC_III]
    has = f"of MIMIC-III's columns, it has {', '.join(known)}" if known else "its first line does not name columns"
    raise ValueError(f"{path} has no column {', '.join(missing)}; {has}: copy the original table again")


def id_in(value: str, column: str, location: str) -> int | None:
    """Returns the number in a cell with an id; None if the cell is empty.

    Raises:
        ValueError: the cell is not a whole number, or is a decimal such as 145834.0.

    Example:
        >>> id_in("145834", "HADM_ID", "row 1"), id_in("", "HADM_ID", "row 2")
        (145834, None)
        >>> id_in("145834.0", "HADM_ID", "row 3")
        Traceback (most recent call last):
        ValueError: row 3: HADM_ID is 145834.0, a decimal: another program saved the table, so copy the original again
    """
    if not value:
        return None
    if value.isascii() and value.isdecimal():
        return int(value)
    if DECIMAL.fullmatch(value):
        raise ValueError(
            f"{location}: {column} is {value}, a decimal: another program saved the table, so copy the original again"
        )
    raise ValueError(f"{location}: {column} is not a whole number: the table is damaged, so copy the original again")


def required_id(value: str, column: str, location: str) -> int:
    """Returns the number in a cell with an id, as `id_in` does, but raises an error if the cell is empty.

    Example:
        >>> required_id("7", "ROW_ID", "row 1")
        7
    """
    number = id_in(value, column, location)
    if number is None:
        raise ValueError(f"{location}: {column} is empty: the table is damaged, so copy the original again")
    return number


def new_row_id(value: str, seen: RowIds, location: str) -> int:
    """Returns the number in a cell of the column ROW_ID, and adds it to `seen`.

    Raises:
        ValueError: the cell is empty or not a whole number, or the number is in `seen` already.

    Example:
        >>> seen = RowIds()
        >>> new_row_id("7", seen, "row 1")
        7
        >>> new_row_id("7", seen, "row 2")
        Traceback (most recent call last):
        ValueError: row 2: ROW_ID 7 is repeated: the table is damaged, so copy the original again
    """
    row_id = required_id(value, "ROW_ID", location)
    if not seen.add(row_id):
        raise ValueError(f"{location}: ROW_ID {row_id} is repeated: the table is damaged, so copy the original again")
    return row_id
