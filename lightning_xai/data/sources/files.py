"""Local CSV, TSV, JSON Lines, Parquet and Arrow files with any column names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import Dataset, load_dataset
from datasets.exceptions import DatasetGenerationError

from lightning_xai.data.sources.columns import ColumnSource
from lightning_xai.data.sources.tables import read_delimited, read_json

_KINDS = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".arrow")


class Files(ColumnSource):
    """Rows of local files.

    Args:
        data_files: split -> one file or a list of files. All files have the same kind: csv, tsv, jsonl, json, parquet
            or arrow. Splits with other names than "train", "validation" and "test" are further test splits.
        quoting: whether cells of csv and tsv files may be in double quotes. None means true for csv and false for tsv,
            where a quote is a character like any other and every line is a row.
        kwargs: arguments of ColumnSource.

    Raises:
        ValueError: the files are not all of one known kind. `load` raises it if a file is missing, has no rows or
            cannot be read.

    Example:
        >>> Files({"train": "a.csv"}, label_column="sentiment").columns["labels"]
        'sentiment'
    """

    name = "files"

    def __init__(self, data_files: dict[str, str | list[str]], *, quoting: bool | None = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self.data_files = {split: [f] if isinstance(f, str) else list(f) for split, f in data_files.items()}
        self.kinds = sorted({Path(path).suffix for paths in self.data_files.values() for path in paths})
        if len(self.kinds) != 1 or self.kinds[0] not in _KINDS:
            raise ValueError(f"data_files end in {self.kinds}; give files of one kind among {', '.join(_KINDS)}")
        self.quoting = quoting

    def prepare(self) -> None:
        self._check_files()
        if self.kinds[0] in (".parquet", ".arrow"):
            super().prepare()

    def load_table(self) -> dict[str, Dataset | list[dict[str, Any]]]:
        self._check_files()
        kind = self.kinds[0].removeprefix(".")
        if kind in ("parquet", "arrow"):
            return {split: self._load_dataset(kind, split) for split in self.data_files}
        return {
            split: [row for path in paths for row in self._read(Path(path))] for split, paths in self.data_files.items()
        }

    def _load_dataset(self, kind: str, split: str) -> Dataset:
        # one split at a time, since `datasets` would cast the columns of all splits to the types of the first
        files = self.data_files[split]
        try:
            return load_dataset(kind, data_files={split: files})[split]
        except DatasetGenerationError as error:
            raise ValueError(
                f"{', '.join(files)} cannot be read ({one_line(error)}): write the files again, with equal columns"
            ) from error

    def _read(self, path: Path) -> list[dict[str, Any]]:
        if path.suffix in (".csv", ".tsv"):
            is_csv = path.suffix == ".csv"
            quoting = is_csv if self.quoting is None else self.quoting
            rows = read_delimited(path, delimiter="," if is_csv else "\t", quoting=quoting)
        else:
            rows = read_json(path)
        if not rows:
            raise _without_rows(path)
        return rows

    def _check_files(self) -> None:
        for path in (Path(path) for paths in self.data_files.values() for path in paths):
            if not path.is_file():
                beside = sorted(p.name for p in path.parent.iterdir())[:10] if path.parent.is_dir() else []
                raise ValueError(f"file {path} is missing; {path.parent} has {', '.join(beside) or 'no files'}")
            if not path.stat().st_size:
                raise _without_rows(path)


def one_line(error: BaseException) -> str:
    """Returns the first line of the error behind an error of `datasets`, at most 200 characters.

    Example:
        >>> one_line(ValueError("no columns\\nat all"))
        'no columns'
    """
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _without_rows(path: Path) -> ValueError:
    return ValueError(f"file {path} has no rows: fill it, or leave its split out of data_files")
