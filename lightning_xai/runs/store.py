"""Stores float32 rows by (example index, class). A store stays valid if the writing process is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lightning_xai.runs.disk import writing
from lightning_xai.runs.format import with_format, without_format
from lightning_xai.runs.lock import check_owned
from lightning_xai.runs.whole_files import read_json, write_json

STORE_FILE = "store.json"  # metadata file in the folder of every store
OLD_STORE = "remove it or choose another folder, or use the version that wrote it"
ROW = np.dtype([("index", "<i8"), ("target", "<i8"), ("offset", "<i8"), ("length", "<i8")])


class RaggedWriter:
    """Appends rows to a shard of a store. Each process writes its own shard, so that no process waits for another.

    The values of a row reach the disk before the index entry that points to them. If the process is killed, the next
    writer of the shard drops an incomplete row.

    Args:
        path: the store's folder, which is made if missing.
        rank: number of the process; the shard's files have this name.
        metadata: JSON-able facts about all rows, such as method and split; an existing store must have the same facts.

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

    def __init__(self, path: str | Path, *, rank: int = 0, metadata: dict[str, Any] | None = None) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        description = self.path / STORE_FILE
        if description.exists() and metadata is not None:
            stored = read_metadata(self.path)
            if stored != metadata:
                changed = [key for key in {**stored, **metadata} if stored.get(key) != metadata.get(key)]
                before, now = ({key: facts.get(key) for key in changed} for facts in (stored, metadata))
                raise ValueError(
                    f"{self.path} holds rows of {before}, not of {now}: remove it or choose another folder"
                )
        elif rank == 0 or not description.exists():  # if process 0 has no rows, another process writes
            write_json(description, with_format(metadata or {}))
        rows = _complete_rows(self.path, rank)
        self._length = int(rows["offset"][-1] + rows["length"][-1]) if len(rows) else 0
        self._values = _open_at(self.path / f"{rank}.values", self._length * 4)
        # opened last: if the process is killed before, there is no file of rows without a file of values
        self._rows = _open_at(self.path / f"{rank}.rows", len(rows) * ROW.itemsize)

    def add(self, index: int, target: int, values: np.ndarray) -> None:
        """Appends one row.

        Raises:
            ValueError: another process has taken over the store's folder, or the disk is full.
        """
        check_owned(every=1.0)
        values = np.ascontiguousarray(values, dtype="<f4")
        with writing(self.path):
            self._values.write(values.tobytes())
            self._values.flush()
            self._rows.write(np.array([(index, target, self._length, len(values))], dtype=ROW).tobytes())
            self._rows.flush()
        self._length += len(values)

    def close(self) -> None:
        self._values.close()
        self._rows.close()

    def __enter__(self) -> RaggedWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class RaggedStore:
    """Reads all shards of a store through memory maps. If two shards hold the same key, the lower rank is read.

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
        self._maps: list[np.ndarray] = []
        self._where: dict[tuple[int, int], tuple[int, int, int]] = {}
        for shard, name in enumerate(sorted(self.path.glob("*.rows"), key=lambda file: int(file.stem))):
            rows = _complete_rows(self.path, int(name.stem))
            values = name.with_suffix(".values")
            length = values.stat().st_size // 4
            self._maps.append(np.memmap(values, "<f4", "r", shape=(length,)) if length else np.zeros(0, "<f4"))
            for index, target, offset, length in rows.tolist():
                self._where.setdefault((index, target), (shard, offset, length))

    def get(self, index: int, target: int) -> np.ndarray:
        """Returns the values [T] of an example and a class.

        Raises:
            KeyError: the store has no such row.
        """
        shard, offset, length = self._where[index, target]
        return self._maps[shard][offset : offset + length]

    def keys(self) -> list[tuple[int, int]]:
        """Returns the keys (example index, class) of all rows in ascending order."""
        return sorted(self._where)

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self._where

    def __len__(self) -> int:
        return len(self._where)


def stores_in(folder: Path, depth: int = 1) -> list[Path]:
    """Returns the sorted paths, relative to `folder`, of the stores that are `depth` levels below `folder`.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> RaggedWriter(folder / "test" / "gradient").close()
        >>> stores_in(folder), [path.as_posix() for path in stores_in(folder, depth=2)]
        ([], ['test/gradient'])
    """
    return sorted(file.parent.relative_to(folder) for file in folder.glob("*/" * depth + STORE_FILE))


def is_store(path: Path) -> bool:
    """Returns whether a folder holds a store.

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


def _complete_rows(path: Path, rank: int) -> np.ndarray:
    """Returns the index entries of a shard, up to the first entry whose values are incomplete."""
    file = path / f"{rank}.rows"
    if not file.exists():
        return np.zeros(0, ROW)
    raw = file.read_bytes()
    rows = np.frombuffer(raw[: len(raw) // ROW.itemsize * ROW.itemsize], dtype=ROW)
    num_values = (path / f"{rank}.values").stat().st_size // 4
    is_complete = rows["offset"] + rows["length"] <= num_values
    return rows if is_complete.all() else rows[: int(is_complete.argmin())]


def _open_at(file: Path, size: int) -> BinaryIO:
    """Opens a file for appending, after cutting the file to `size` bytes."""
    file.touch()
    handle = file.open("r+b")
    handle.truncate(size)
    handle.seek(size)
    return handle
