"""Opens files that may be compressed, and decompresses them: .gz with Python's gzip, .zst with pyarrow."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import pyarrow as pa

GZIP, ZSTD = ".gz", ".zst"


def kind_of(path: str | Path) -> str:
    """Returns the suffix of a file's name that tells its format; .gz or .zst after this suffix is ignored.

    Example:
        >>> kind_of("train.csv.gz"), kind_of("train.jsonl"), kind_of("parts/*.jsonl.zst")
        ('.csv', '.jsonl', '.jsonl')
    """
    name = Path(path)
    return Path(name.stem).suffix if name.suffix in (GZIP, ZSTD) else name.suffix


def check_compression(path: Path) -> None:
    """Raises ValueError if a file is compressed in a way that cannot be read here.

    Example:
        >>> check_compression(Path("train.csv.gz"))
    """
    if path.suffix == ZSTD and not pa.Codec.is_available("zstd"):
        raise ValueError(f"{path} needs a pyarrow that supports zstd: install pyarrow from PyPI, or compress with gzip")


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for reading its decompressed bytes.

    Raises:
        ValueError: the compressed file is truncated or damaged.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.txt.gz")
        >>> _ = path.write_bytes(gzip.compress(b"good"))
        >>> with open_bytes(path) as stream:
        ...     stream.read()
        b'good'
    """
    check_compression(path)
    try:
        if path.suffix == GZIP:
            with gzip.open(path) as stream:
                yield cast("BinaryIO", stream)
        elif path.suffix == ZSTD:
            with pa.input_stream(str(path), compression="zstd") as stream:
                yield cast("BinaryIO", io.BufferedReader(stream))
        else:
            with path.open("rb") as stream:
                yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error, pa.ArrowException) as error:
        raise _damaged(path, error) from error
    except OSError as error:
        if path.suffix != ZSTD or error.errno is not None:  # pyarrow's errors about damaged files have no errno
            raise
        raise _damaged(path, error) from error


@contextmanager
def open_text(path: Path, encoding: str, newline: str | None = None) -> Iterator[TextIO]:
    """Opens a file for reading its decompressed text.

    Args:
        path: the file.
        encoding: name of a Python codec.
        newline: as in Python's `open`.

    Raises:
        ValueError: the compressed file is truncated or damaged.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.txt")
        >>> _ = path.write_text("good")
        >>> with open_text(path, "utf-8") as stream:
        ...     stream.read()
        'good'
    """
    with open_bytes(path) as stream, io.TextIOWrapper(stream, encoding=encoding, newline=newline) as text:
        yield text


def _damaged(path: Path, error: BaseException) -> ValueError:
    return ValueError(f"{path} is cut off or damaged ({error}): copy or compress the file again")
