"""Reads local CSV, TSV, JSON, JSON Lines, Parquet and Arrow files, whose columns may have any names."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, load_dataset
from datasets.exceptions import DatasetGenerationError

from lightning_xai.data.sources.columns import ColumnSource
from lightning_xai.data.sources.row_stream import Rows, RowStream
from lightning_xai.data.tables.csv_and_json import read_delimited, read_json_rows
from lightning_xai.runs.files.compressed_files import check_compression, kind_of
from lightning_xai.runs.files.disk import disk_message
from lightning_xai.runs.files.text_files import check_encoding

_BINARY = (".parquet", ".arrow")
KINDS = (".csv", ".tsv", ".jsonl", ".json", *_BINARY)


class Files(ColumnSource):
    """Rows of local files.

    Args:
        data_files: split -> one file or a list of files. All files must have the same kind: csv, tsv, jsonl, json,
            parquet or arrow. Text files may be compressed (csv.gz, jsonl.zst). A name with *, ? or [...] stands for all
            matching files, sorted by name. A split whose name is not "train", "validation" or "test" is treated as an
            additional test split.
        quoting: whether cells of csv and tsv files may be in double quotes; by default, true for csv and false for tsv
            files. If false, quotes are ordinary characters, and every line is a row.
        encoding: encoding of csv, tsv, json and jsonl files, such as latin-1, cp1252 or utf-16.
        field: if each json or jsonl file is one object, the key under which this object holds the rows. None if the
            files hold only rows.
        kwargs: arguments of ColumnSource.

    Raises:
        ValueError: the kind of a file is unknown, the files are of several kinds, or `quoting`, `encoding` or `field`
            does not apply to their kind. `load` raises the error if a file is missing, has no rows, lacks columns that
            the other files of its split have, is in two splits or cannot be read.

    Example:
        >>> Files({"train": "a.csv"}, label_column="sentiment").columns["labels"]
        'sentiment'
    """

    name = "files"

    def __init__(
        self,
        data_files: dict[str, str | list[str]],
        *,
        quoting: bool | None = None,
        encoding: str = "utf-8",
        field: str | None = None,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.data_files = {split: [f] if isinstance(f, str) else list(f) for split, f in data_files.items()}
        self.kinds = sorted({kind_of(path) for paths in self.data_files.values() for path in paths})
        if len(self.kinds) != 1 or self.kinds[0] not in KINDS:
            raise ValueError(
                f"data_files end in {self.kinds}; give files with the same ending, one of {', '.join(KINDS)}"
            )
        check_encoding(encoding)
        if encoding != "utf-8" and self.kinds[0] in _BINARY:
            raise ValueError(
                f"encoding is {encoding!r}, but {self.kinds[0]} files are not text files: remove `encoding`"
            )
        if field is not None and self.kinds[0] not in (".json", ".jsonl"):
            raise ValueError(f"field is {field!r}, but {self.kinds[0]} files have no keys: remove `field`")
        if quoting is not None and self.kinds[0] not in (".csv", ".tsv"):
            raise ValueError(f"quoting is {quoting}, but {self.kinds[0]} files have no quoted cells: remove `quoting`")
        self.quoting, self.encoding, self.field = quoting, encoding, field

    @property
    def paths(self) -> dict[str, list[Path]]:
        """The files of each split."""
        return {
            split: [path for pattern in patterns for path in files_of_pattern(pattern)]
            for split, patterns in self.data_files.items()
        }

    def files(self) -> list[Path]:
        return [path for paths in self.paths.values() for path in paths if path.is_file()]

    def prepare(self) -> None:
        self._check_files()
        if self.kinds[0] in _BINARY:
            super().prepare()

    def load_table(self) -> dict[str, Rows]:
        self._check_files()
        kind = self.kinds[0].removeprefix(".")
        if self.kinds[0] in _BINARY:
            return {split: self._load_dataset(kind, split) for split in self.data_files}
        return {split: self._stream(paths, split) for split, paths in self.paths.items()}

    def _stream(self, paths: list[Path], split: str) -> RowStream:
        """Checks all files of a split, and returns a stream of their rows."""
        used = {column for column in self.columns.values() if column is not None}
        every, num_rows = dict[str, None](), 0
        first_columns: set[str] = set()  # columns that the source uses and the first file has
        for number, path in enumerate(paths):
            names = dict[str, None]()
            for row in self._read(path):
                if names.keys() != row.keys():
                    names.update(dict.fromkeys(row))
                num_rows += 1
            columns = used.intersection(names)
            if number and columns != first_columns:
                raise ValueError(
                    f"{path} has the columns {', '.join(sorted(columns)) or '(none)'}, but {paths[0]} of "
                    f"split {split!r} has {', '.join(sorted(first_columns))}: give all files of a split the same "
                    "columns"
                )
            first_columns = columns
            every.update(names)
        return RowStream(lambda: chain.from_iterable(map(self._read, paths)), list(every), num_rows)

    def _load_dataset(self, kind: str, split: str) -> Dataset:
        # loads one split at a time, since `datasets` would cast all splits to the column types of the first split
        files = [str(path) for path in self.paths[split]]
        try:
            with _quiet():
                return load_dataset(kind, data_files={split: files})[split]
        except (DatasetGenerationError, pa.ArrowException, OSError) as error:
            if disk_message(error) is not None:  # the cache of `datasets` could not be written
                raise
            raise ValueError(
                f"{', '.join(files)} cannot be read ({cause_of(error)}): write the files again, all with equal columns"
            ) from error

    def _read(self, path: Path) -> Iterator[dict[str, Any]]:
        if kind_of(path) in (".csv", ".tsv"):
            is_csv = kind_of(path) == ".csv"
            quoting = is_csv if self.quoting is None else self.quoting
            delimiter = "," if is_csv else "\t"
            rows = read_delimited(path, delimiter=delimiter, quoting=quoting, encoding=self.encoding)
        else:
            rows = read_json_rows(path, encoding=self.encoding, field=self.field)
        first = next(rows, None)
        if first is None:
            raise _without_rows(path)
        return chain([first], rows)

    def _check_files(self) -> None:
        owners: dict[Path, str] = {}  # file -> split
        for split, path in ((split, path) for split, paths in self.paths.items() for path in paths):
            if owners.setdefault(path.resolve(), split) != split:
                raise ValueError(
                    f"file {path} is in the splits {owners[path.resolve()]!r} and {split!r}: choose one split"
                )
            check_compression(path)
            if not path.is_file():
                similar = get_close_matches(path.name, _files_like(path), n=10, cutoff=0.0)
                raise ValueError(
                    f"file {path} is missing; the folder {path.parent} has {', '.join(similar) or 'no data files'}"
                )
            if not path.stat().st_size:
                raise _without_rows(path)
            if path.suffix == ".parquet" and not _num_rows(path):
                raise _without_rows(path)


def files_of_pattern(pattern: str) -> list[Path]:
    """Returns all files that match a pattern with *, ? or [...], sorted by name.

    If `pattern` is the name of an existing file or has none of these characters, the result is this name alone. A name
    without these characters is not checked, so the file may be missing.

    Raises:
        ValueError: no file matches a pattern with *, ? or [...].

    Example:
        >>> [path.as_posix() for path in files_of_pattern("no/such/file.csv")]
        ['no/such/file.csv']
        >>> files_of_pattern("no/such/*.csv")
        Traceback (most recent call last):
        ValueError: no file matches 'no/such/*.csv': correct the name in data_files
    """
    if not glob.has_magic(pattern) or Path(pattern).is_file():
        return [Path(pattern)]
    matches = sorted(path for path in map(Path, glob.glob(pattern, recursive=True)) if path.is_file())
    if not matches:
        raise ValueError(f"no file matches {pattern!r}: correct the name in data_files")
    return matches


def _files_like(path: Path) -> list[str]:
    """Returns the names of visible files in the folder of `path` that have the same kind as `path`, such as csv.

    If there are none, returns the names of the visible files of all known kinds.
    """
    beside = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    names = [file.name for file in beside if file.is_file() and not file.name.startswith(".")]
    same = [name for name in names if kind_of(name) == kind_of(path)]
    return same or [name for name in names if kind_of(name) in KINDS]


def _num_rows(path: Path) -> int:
    try:
        return pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError) as error:
        raise ValueError(
            f"{path} cannot be read ({cause_of(error)}): write the file again as parquet, or correct its name's ending"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps `datasets` from logging the errors that it raises."""
    level = datasets.logging.get_verbosity()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    try:
        yield
    finally:
        datasets.logging.set_verbosity(level)


def cause_of(error: BaseException) -> str:
    """Returns the first line of an error's message, or of its cause's message if it has a cause, cut to 200 characters.

    Example:
        >>> cause_of(ValueError("no columns\\nat all"))
        'no columns'
    """
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _without_rows(path: Path) -> ValueError:
    return ValueError(f"file {path} has no rows: add rows, or remove the file from data_files")
