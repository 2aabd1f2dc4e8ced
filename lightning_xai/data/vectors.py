"""Reads pretrained vectors of given words from GloVe, fastText and word2vec files."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np

from lightning_xai.functional.text.quantity import quantity

_BLOCK = 1 << 20
_FASTTEXT_MODEL = (793712314).to_bytes(4, "little")  # first bytes of a fastText model, which is not a vector table


def read_word_vectors(path: str, words: Sequence[str]) -> np.ndarray:
    """Returns float32 vectors [len(words), D], NaN for words that the file lacks.

    Files that end in .bin or .bin.gz are read in word2vec's binary format. All other files are read as text, which may
    be compressed (.gz). Each line of text has a word and its numbers; the first line may instead have two counts: the
    number of vectors, and their width. If a word occurs twice, its first vector is used. The whole file is never in
    memory at once.

    Raises:
        ValueError: the file is missing, truncated or in another format; it has none of the words; or the vector of one
            of the words is not finite or has a wrong width.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "glove.txt")
        ...     _ = path.write_text("the 1 2\\ncat 3 4\\n")
        ...     read_word_vectors(str(path), ["cat", "dog"])
        array([[ 3.,  4.],
               [nan, nan]], dtype=float32)
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(
            f"there is no file of word vectors at {path}: set `vectors` to a text file or .bin file, or to null"
        )
    kinds = file.suffixes[-2:] if file.suffix == ".gz" else file.suffixes[-1:]
    read = _binary_vectors if ".bin" in kinds else _text_vectors
    rows = {word.encode(): row for row, word in enumerate(words)}
    table: np.ndarray | None = None
    with _open(file) as stream:
        for word, vector in read(stream, path, rows):
            if table is None:
                table = np.full((len(words), len(vector)), np.nan, dtype=np.float32)
            row = rows[word]
            if np.isnan(table[row, 0]):
                table[row] = vector
    if table is None:
        raise ValueError(
            f"{path} has no vector for any word of the vocabulary ({quantity(len(words), 'word')}): check that file "
            "and vocabulary agree in language and in upper or lower case"
        )
    return table


def coverage(vectors: np.ndarray) -> float:
    """Returns the fraction of words with a vector. `vectors` [V, D] has one row per word, NaN for a missing vector.

    Example:
        >>> coverage(np.array([[1.0, 2.0], [np.nan, np.nan]]))
        0.5
    """
    return float(np.mean(~np.isnan(vectors[:, 0])))


def _open(file: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def _counts(line: bytes) -> tuple[int, int] | None:
    """Returns (number of vectors, width) if the line is a header with these two counts, and otherwise None."""
    fields = line.split()
    return (int(fields[0]), int(fields[1])) if len(fields) == 2 and all(f.isdigit() for f in fields) else None


def _text_vectors(stream: IO[bytes], path: str, wanted: dict[bytes, int]) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yields each word of the file that is in `wanted`, with its vector [D]."""
    header, width, number = None, 0, 0
    for number, line in enumerate(stream, start=1):  # noqa: B007 - used after the loop
        if number == 1:
            header = _counts(line)
            width = header[1] if header else len(line.split()) - 1
            if width < 1:
                raise ValueError(f"{path}, line 1: no vector; each line must have a word and its numbers")
            if header:
                continue
        first = line[: line.find(b" ")]
        if first not in wanted:
            continue
        # in some files, words contain spaces, so the numbers are split off from the right
        word, *numbers = line.rstrip().rsplit(b" ", width)
        extra = word.split(b" ")[1:]
        if extra and not all(_is_number(part) for part in extra):
            continue
        if extra or len(numbers) != width or not all(_is_number(part) for part in numbers):
            raise ValueError(
                f"{path}, line {number}: the word {first.decode(errors='replace')!r} must be followed by {width} "
                f"finite numbers, as the first line {'says' if header else 'has'}; correct or remove this line"
            )
        yield word, np.array(numbers, dtype=np.float32)
    num_vectors = number - (header is not None)
    if header and num_vectors < header[0]:
        raise ValueError(f"{path} ends after {num_vectors} of {header[0]} vectors, at line {number}: download it again")


def _is_number(text: bytes) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _binary_vectors(stream: IO[bytes], path: str, wanted: dict[bytes, int]) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yields each word of the file that is in `wanted`, with its vector [D].

    The file consists of "<count> <width>\\n" and one entry per word: "<word> " and `width` float32 numbers.
    """
    line = stream.readline(100)
    header = _counts(line)
    if line.startswith(_FASTTEXT_MODEL):
        raise ValueError(f"{path} is a fastText model, not a table of vectors: give the .vec file of that model")
    if header is None or header[1] < 1:
        raise ValueError(
            f"{path}, line 1: a binary word2vec file begins with two counts, but this file does not; if it is a text "
            "file, rename it so that its name does not end in .bin"
        )
    count, width = header
    size, buffer, start = 4 * width, b"", 0
    for number in range(1, count + 1):
        space = buffer.find(b" ", start)
        while space < 0 or len(buffer) < space + 1 + size:
            block = stream.read(_BLOCK)
            if not block:
                raise ValueError(f"{path} ends within vector {number} of {count}: download it again")
            buffer, start = buffer[start:] + block, 0
            space = buffer.find(b" ")
        word = buffer[start:space].lstrip(b"\n")  # some programs write a line feed after each entry
        start = space + 1 + size
        if word in wanted:
            vector = np.frombuffer(buffer, dtype="<f4", count=width, offset=space + 1)
            if not np.isfinite(vector).all():
                raise ValueError(f"{path}: vector {number} ({word.decode()!r}) is not finite; remove it from the file")
            yield word, vector
