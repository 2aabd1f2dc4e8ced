"""The files that one process writes in a store: an index of rows, and the rows' values as float32 or as bits."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

# an index entry; length: number of values in the row; offset: where the row starts in the file of values, counted in
# values (float32) or in bytes (bits)
ROW = np.dtype([("index", "<i8"), ("target", "<i8"), ("offset", "<i8"), ("length", "<i8")])
ROWS, FLOATS, BITS = ".rows", ".values", ".bits"  # suffixes of a shard's files; each row of bits starts with a new byte


def values_file(folder: Path, rank: int, *, bits: bool = False) -> Path:
    """Returns the file that holds a shard's values. If there is none, returns the name of the file to create.

    `bits` tells whether a new file is for bits or for float32 values.

    Example:
        >>> values_file(Path("no/such/store"), 0, bits=True).as_posix()
        'no/such/store/0.bits'
    """
    for suffix in (FLOATS, BITS):
        if (folder / f"{rank}{suffix}").exists():
            return folder / f"{rank}{suffix}"
    return folder / f"{rank}{BITS if bits else FLOATS}"


def sizes_of(lengths: np.ndarray, file: Path) -> np.ndarray:
    """Returns the size of each row in the file of values: in values if they are float32, in bytes if they are bits.

    The index counts its offsets in the same unit.

    Example:
        >>> sizes_of(np.array([9]), Path("0.bits")).tolist(), sizes_of(np.array([9]), Path("0.values")).tolist()
        ([2], [9])
    """
    return -(-lengths // 8) if file.suffix == BITS else lengths


def complete_rows(folder: Path, rank: int) -> np.ndarray:
    """Returns a shard's memory-mapped index entries, cut off before the first entry whose values are incomplete.

    Example:
        >>> len(complete_rows(Path("no/such/store"), 0))
        0
    """
    file = folder / f"{rank}{ROWS}"
    if not file.exists():
        return np.zeros(0, ROW)
    num_rows = file.stat().st_size // ROW.itemsize
    rows = np.asarray(np.memmap(file, ROW, "r", shape=(num_rows,))) if num_rows else np.zeros(0, ROW)
    values = values_file(folder, rank)
    size = values.stat().st_size // (1 if values.suffix == BITS else 4) if values.exists() else 0
    is_complete = rows["offset"] + sizes_of(rows["length"], values) <= size
    return rows if is_complete.all() else rows[: int(is_complete.argmin())]


def map_values(file: Path) -> np.ndarray:
    """Returns the memory-mapped values of a shard: float32 numbers, or bytes that hold up to eight values (bits) each.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "0.values")
        >>> _ = file.write_bytes(np.array([0.5], dtype="<f4").tobytes())
        >>> map_values(file).tolist()
        [0.5]
    """
    dtype = np.dtype(np.uint8 if file.suffix == BITS else "<f4")
    length = file.stat().st_size // dtype.itemsize if file.exists() else 0
    return np.memmap(file, dtype, "r", shape=(length,)) if length else np.zeros(0, dtype)


def open_at(file: Path, size: int) -> BinaryIO:
    """Truncates a file to `size` bytes and opens it for appending.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "0.rows")
        >>> _ = file.write_bytes(b"12345")
        >>> open_at(file, 3).close()
        >>> file.read_bytes()
        b'123'
    """
    file.touch()
    handle = file.open("r+b")
    handle.truncate(size)
    handle.seek(size)
    return handle
