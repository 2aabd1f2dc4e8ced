"""Reads text files. If the given encoding is wrong, the error names the file, the place and a probable encoding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lightning_xai.runs.files.compressed_files import open_bytes, open_text


def check_encoding(encoding: str) -> None:
    """Raises ValueError unless Python knows a text encoding with this name.

    Example:
        >>> check_encoding("latin-1")
        >>> check_encoding("utf8mb4")
        Traceback (most recent call last):
        ValueError: encoding is 'utf8mb4': choose an encoding known to Python, such as utf-8, latin-1, cp1252 or utf-16
    """
    try:
        "".encode(encoding)
    except (LookupError, ValueError) as error:
        raise ValueError(
            f"encoding is {encoding!r}: choose an encoding known to Python, such as utf-8, latin-1, cp1252 or utf-16"
        ) from error


def codec_of(encoding: str) -> str:
    """Returns the name of Python's codec for an encoding. For UTF-8, the codec skips a byte order mark.

    Example:
        >>> codec_of("UTF-8"), codec_of("latin-1")
        ('utf-8-sig', 'latin-1')
    """
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding


def read_text(path: Path, encoding: str = "utf-8", *, has_option: bool = True) -> str:
    r"""Returns the text of a file.

    Args:
        path: the file.
        encoding: the encoding of the file.
        has_option: whether the error message advises the user to set an option `encoding`.

    Raises:
        ValueError: the file has another encoding.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "notes.txt")
        >>> _ = path.write_bytes(b"caf\xe9")
        >>> ascii(read_text(path, "latin-1"))
        "'caf\\xe9'"
    """
    try:
        with open_text(path, codec_of(encoding)) as stream:
            text = stream.read()
    except UnicodeError as error:
        raise other_encoding(path, encoding, error, has_option=has_option) from error
    if "\0" in text[:1000]:
        raise other_encoding(path, encoding, has_option=has_option)
    return text


def text_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    r"""Yields the lines of a text file.

    Raises:
        ValueError: the file has another encoding.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "notes.txt")
        >>> _ = path.write_bytes(b"good\r\nbad")
        >>> list(text_lines(path))
        ['good\n', 'bad']
    """
    try:
        with open_text(path, codec_of(encoding)) as stream:
            for line in stream:
                if "\0" in line[:1000]:
                    raise other_encoding(path, encoding)
                yield line
    except UnicodeError as error:
        raise other_encoding(path, encoding, error) from error


def other_encoding(
    path: Path, encoding: str, error: UnicodeError | None = None, *, has_option: bool = True
) -> ValueError:
    r"""Returns the ValueError for a file that is not in `encoding`. The message suggests a probable encoding.

    Args:
        path: the file.
        encoding: the encoding with which the file was read.
        error: error of the codec; None if the file could be decoded but has NUL characters.
        has_option: whether the error message advises the user to set an option `encoding`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "rows.csv")
        >>> _ = path.write_bytes("text".encode("utf-16-le"))
        >>> str(other_encoding(Path(path), "utf-8")).removeprefix(str(path))
        ' is not UTF-8 (byte 1 is 0): save it as UTF-8, or set `encoding: utf-16-le`'
    """
    with open_bytes(path) as stream:
        first = stream.read(2)
    if first in (b"\xff\xfe", b"\xfe\xff"):
        probable = "utf-16"
    elif 0 in first:
        probable = "utf-16-le" if first[1:] == b"\0" else "utf-16-be"
    else:
        probable = "latin-1" if codec_of(encoding) == "utf-8-sig" else "utf-8"
    wrong = _wrong_place(path, encoding)
    if probable == "latin-1" and wrong is not None and any(0x80 <= byte < 0xA0 for byte in wrong[2]):
        probable = "cp1252"  # bytes 0x80 to 0x9f are quotes or dashes in cp1252, but control characters in latin-1
    first_wrong = "" if wrong is None else f"; the first wrong line is line {wrong[0]}"
    if error is None:
        place = f"byte {first.find(0)} is 0"
    else:  # `error.start` is not used, because it counts from the start of a block and not of the file
        place = getattr(error, "reason", str(error)) if wrong is None else f"byte {wrong[1]}"
    remedy = f", or set `encoding: {probable}`" if has_option else f" (for example, with iconv -f {probable} -t utf-8)"
    return ValueError(f"{path} is not {encoding.upper()} ({place}): save it as UTF-8{remedy}{first_wrong}")


def _wrong_place(path: Path, encoding: str) -> tuple[int, int, bytes] | None:
    """Returns the first line that is not UTF-8, as (number of the line, offset of the wrong byte in the file, line).

    Returns None if all lines are UTF-8 or if `encoding` is not UTF-8.
    """
    if codec_of(encoding) != "utf-8-sig":
        return None
    begin = 0
    with open_bytes(path) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return number, begin + error.start, line
            begin += len(line)
    return None
