"""Stores a row of numbers or bits for each (example index, class) on disk. A killed writer leaves a valid store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lightning_xai.runs.files.disk import writing
from lightning_xai.runs.files.whole_files import read_json, write_json
from lightning_xai.runs.format import with_format, without_format
from lightning_xai.runs.locks.lock import check_owned
from lightning_xai.runs.stores.store_keys import bounds_of_shards, sorted_keys
from lightning_xai.runs.stores.store_shards import (
    BITS,
    ROW,
    ROWS,
    complete_rows,
    map_values,
    open_at,
    sizes_of,
    values_file,
)

STORE_FILE = "store.json"  # metadata file in the folder of every store
OLD_STORE = "remove this folder, choose another folder, or use the version that wrote it"


class RaggedWriter:
    """Appends rows to a shard of a store. Each process has its own shard, so that no process waits for another.

    The values of a row are written before the index entry that points to them. If the process is killed in between, the
    next writer of the shard drops the incomplete row.

    Args:
        path: the store's folder, which is created if missing.
        rank: rank of the process; the names of the shard's files begin with this number.
        metadata: facts about all rows, such as method and split, as JSON types. If the store exists, its metadata must
            be equal to these.
        bits: whether to store values as bits; all values must then be 0 or 1. If the shard already has a file of
            float32 values or of bits, new values are stored in the same way as in this file.

    Raises:
        ValueError: the folder holds rows with other metadata or in another format.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with RaggedWriter(folder, metadata={"method": "Gradient"}) as writer:
        ...     writer.add(index=7, target=1, values=np.array([0.5, -1.0]))
        >>> RaggedStore(folder).get(7, 1).tolist()
        [0.5, -1.0]
    """

    def __init__(
        self, path: str | Path, *, rank: int = 0, metadata: dict[str, Any] | None = None, bits: bool = False
    ) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        description = self.path / STORE_FILE
        if description.exists() and metadata is not None:
            check_metadata(self.path, metadata)
        elif rank == 0 or not description.exists():  # if process 0 has no rows, another process writes this file
            write_json(description, with_format(metadata or {}))
        rows = complete_rows(self.path, rank)
        self._file = values_file(self.path, rank, bits=bits)
        last = rows[-1:]
        self._end = int((last["offset"] + sizes_of(last["length"], self._file)).sum())  # offset of the next row
        self._values = open_at(self._file, self._end * (1 if self._file.suffix == BITS else 4))
        # opened after the file of values, so that a kill cannot leave a file of rows without a file of values
        self._rows = open_at(self.path / f"{rank}{ROWS}", len(rows) * ROW.itemsize)

    def add(self, index: int, target: int, values: np.ndarray) -> None:
        """Appends one row.

        Raises:
            ValueError: another process has taken over the store's folder, or the disk is full.
        """
        check_owned(every=1.0)
        if self._file.suffix == BITS:
            stored = np.packbits(np.asarray(values, dtype=bool))
        else:
            stored = np.ascontiguousarray(values, dtype="<f4")
        with writing(self.path):
            self._values.write(stored.tobytes())
            self._values.flush()
            self._rows.write(np.array([(index, target, self._end, len(values))], dtype=ROW).tobytes())
            self._rows.flush()
        self._end += len(stored)

    def close(self) -> None:
        self._values.close()
        self._rows.close()

    def __enter__(self) -> RaggedWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class RaggedStore:
    """Reads all shards of a store through memory maps.

    If two shards have a row with the same key (example index, class), the row of the lower rank is read. The process
    holds in memory only the sorted keys and the places of their rows, usually at most 12 bytes per row.

    Args:
        path: the store's folder.

    Raises:
        ValueError: `path` is not a store, or is a store in another format.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with RaggedWriter(folder) as writer:
        ...     writer.add(index=7, target=0, values=np.array([1.0]))
        ...     writer.add(index=2, target=1, values=np.array([0.0, 3.0]))
        >>> store = RaggedStore(folder)
        >>> store.keys(), store.get(2, 1).tolist(), (2, 0) in store
        ([(2, 1), (7, 0)], [0.0, 3.0], False)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not is_store(self.path):
            raise ValueError(f"{self.path} is not a store (it has no {STORE_FILE}): check the path")
        self.metadata = read_metadata(self.path)
        names = sorted(self.path.glob(f"*{ROWS}"), key=lambda file: int(file.stem))
        self._entries = [complete_rows(self.path, int(name.stem)) for name in names]
        self._maps = [map_values(values_file(self.path, int(name.stem))) for name in names]
        self._first = bounds_of_shards(self._entries)
        self._index, self._target, self._place = sorted_keys(self._entries)

    @property
    def examples(self) -> np.ndarray:
        """Indices [N] of the examples that have a row, in ascending order."""
        return np.unique(self._index).astype(np.int64)

    def _find(self, index: int, target: int) -> tuple[int, int] | None:
        """Returns the shard of a row and its place in the shard, or None if the store lacks the row."""
        number = self._index.dtype.type
        if not np.iinfo(number).min <= index <= np.iinfo(number).max:
            return None
        # `number(index)` has the array's type. For a Python integer, NumPy would convert the whole array to int64
        begin, end = (int(self._index.searchsorted(number(index), side=side)) for side in ("left", "right"))
        within = begin + int(self._target[begin:end].searchsorted(target)) if end > begin else end
        if within == end or self._target[within] != target:
            return None
        place = int(self._place[within])
        shard = int(np.searchsorted(self._first, place, side="right")) - 1
        return shard, place - int(self._first[shard])

    def get(self, index: int, target: int) -> np.ndarray:
        """Returns the values [T] of an example and a class: float32, or bool if the store holds bits.

        Raises:
            KeyError: the store has no such row.
        """
        location = self._find(index, target)
        if location is None:
            raise KeyError((index, target))
        shard, place = location
        values = self._maps[shard]
        _, _, begin, length = self._entries[shard][place].tolist()
        if values.dtype != np.uint8:
            return values[begin : begin + length]
        return np.unpackbits(values[begin : begin + -(-length // 8)], count=length).astype(bool)

    def keys(self) -> list[tuple[int, int]]:
        """Returns the keys (example index, class) of all rows in ascending order."""
        return list(zip(self._index.tolist(), self._target.tolist(), strict=True))

    def __contains__(self, key: tuple[int, int]) -> bool:
        return self._find(*key) is not None

    def __len__(self) -> int:
        return len(self._index)


def check_metadata(path: Path, metadata: dict[str, Any]) -> None:
    """Raises ValueError if the metadata of a store differ from `metadata`. The message names only what differs.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> RaggedWriter(folder, metadata={"split": "test"}).close()
        >>> check_metadata(Path(folder), {"split": "train"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: ... holds rows with the metadata {'split': 'test'}, not {'split': 'train'}: choose ...
    """
    stored = read_metadata(path)
    if stored != metadata:
        changed = [key for key in {**stored, **metadata} if stored.get(key) != metadata.get(key)]
        before, now = ({key: facts.get(key) for key in changed} for facts in (stored, metadata))
        raise ValueError(
            f"{path} holds rows with the metadata {before}, not {now}: choose another folder (`cache_dir`), or remove "
            "this one if no other command needs it"
        )


def stores_in(folder: Path, depth: int = 1) -> list[Path]:
    """Returns the sorted paths of the stores (folders of RaggedWriters) `depth` levels below `folder`, relative to it.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> RaggedWriter(folder / "test" / "gradient").close()
        >>> stores_in(folder), [path.as_posix() for path in stores_in(folder, depth=2)]
        ([], ['test/gradient'])
    """
    return sorted(file.parent.relative_to(folder) for file in folder.glob("*/" * depth + STORE_FILE))


def is_store(path: Path) -> bool:
    """Returns whether a folder is a store, in which RaggedWriters have stored rows.

    Example:
        >>> is_store(Path("no/such/folder"))
        False
    """
    return (path / STORE_FILE).exists()


def read_metadata(path: Path) -> dict[str, Any]:
    """Returns the metadata of a store: facts that hold for all rows.

    Raises:
        ValueError: the store is in another format.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> RaggedWriter(folder, metadata={"split": "test"}).close()
        >>> read_metadata(folder)
        {'split': 'test'}
    """
    return without_format(read_json(path / STORE_FILE), path, OLD_STORE)
