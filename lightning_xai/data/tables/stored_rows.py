"""Keeps the rows of a large table in a memory-mapped temporary file instead of the memory of the process."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasets import Dataset, Features

from lightning_xai.data.sources.base import row_features
from lightning_xai.data.sources.row_checks import check_given_row
from lightning_xai.data.sources.row_stream import blocks_of
from lightning_xai.functional.model_files.cache_folder import cache_folder
from lightning_xai.runs.files.disk import writing
from lightning_xai.runs.files.whole_files import partial_file
from lightning_xai.runs.files.whole_folders import make_private

IN_MEMORY = 1 << 25  # bytes; a table up to this size is not written to disk


def stored_rows(
    rows: Iterable[dict[str, Any]],
    columns: Sequence[str],
    *,
    multilabel: bool = False,
    folder: Path | None = None,
    in_memory: int | None = None,
) -> Dataset:
    """Returns the rows as a data set. If they are large, a memory-mapped file holds them until the data set is freed.

    Args:
        rows: the rows, each with the given columns.
        columns: names of the columns, all of which TextSource describes.
        multilabel: whether the labels of a row are a list.
        folder: the folder of the file; None for the folder of encoded data.
        in_memory: size in bytes up to which the rows stay in memory; None for IN_MEMORY.

    Raises:
        ValueError: a class number, or the start or end of a span, is not a whole number; or the disk is full.

    Example:
        >>> stored_rows(iter([{"text": "good", "labels": 1, "id": "a"}]), ["text", "labels", "id"])[0]
        {'text': 'good', 'labels': 1, 'id': 'a'}
    """
    features = Features({name: kind for name, kind in row_features(multilabel).items() if name in columns})
    limit = IN_MEMORY if in_memory is None else in_memory
    blocks = _tables(rows, features, multilabel)
    first: list[pa.Table] = []
    for table in blocks:
        first.append(table)
        if sum(part.nbytes for part in first) > limit:
            folder = cache_folder(None) / "corpora" if folder is None else folder
            return _mapped(chain(first, blocks), features, partial_file(folder / f"rows-{secrets.token_hex(4)}"))
    return Dataset(pa.concat_tables([features.arrow_schema.empty_table(), *first]))


def _tables(rows: Iterable[dict[str, Any]], features: Features, multilabel: bool) -> Iterator[pa.Table]:
    for block in blocks_of(rows):
        for row in block:
            check_given_row(row, multilabel)
        columns = [pa.array([row[name] for row in block], field.type) for name, field in _fields(features)]
        yield pa.Table.from_arrays(columns, schema=features.arrow_schema)


def _fields(features: Features) -> Iterator[tuple[str, pa.Field]]:
    return ((field.name, field) for field in features.arrow_schema)


def _mapped(tables: Iterable[pa.Table], features: Features, file: Path) -> Dataset:
    make_private(file.parent)
    try:
        with writing(file), open(file, "wb", opener=_owner_only) as stream:
            with pa.ipc.new_stream(stream, features.arrow_schema) as writer:
                for table in tables:
                    writer.write_table(table)
        return Dataset.from_file(str(file))
    finally:
        file.unlink(missing_ok=True)  # the contents stay available through the memory map


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)
