"""Turns errors of a full or read-only disk into one-line messages for the user."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or ask for a larger quota",
    errno.EFBIG: "raise the limit on file sizes",
    errno.EROFS: "choose a folder that is not read-only",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "a part of this path is a file, so choose another path",
    errno.EISDIR: "remove the folder with this name, or choose another name",
}
OF_WRITING = {  # used only if a file could not be written; in reading, these errors have other causes
    errno.ENOENT: "choose a folder that can be created",
    errno.EEXIST: "a part of this path is a file, so choose another path",
}
LONGEST_NAME = 120  # number of characters after which messages cut a file's name


def disk_message(error: BaseException, file: Path | str | None = None, *, action: str = "written") -> str | None:
    """Returns a one-line message if an error is caused by an unusable disk or file name, and otherwise None.

    Args:
        error: the disk's error, or an error that was raised while the disk's error was handled.
        file: the file that could not be written (or read); by default, the file that the error names.
        action: the failed action as a participle for the message, such as "written".

    Example:
        >>> print(disk_message(OSError(errno.ENOSPC, "No space left on device"), "a.ckpt"))
        a.ckpt cannot be written (No space left on device): free some space and run this again; earlier files are kept
        >>> print(disk_message(ValueError("lr is -1")))
        None
    """
    cause: BaseException | None = error
    remedies = REMEDIES | (OF_WRITING if action == "written" else {})
    while cause is not None and not (isinstance(cause, OSError) and cause.errno in remedies):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    assert isinstance(cause, OSError) and cause.errno is not None
    named = file or cause.filename or "a file"
    name = os.fsdecode(named) if isinstance(named, bytes) else str(named)  # TensorBoard names its files in bytes
    name = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
    remedy = remedies[cause.errno]
    return f"{name} cannot be {action} ({cause.strerror}): {remedy} and run this again; earlier files are kept"


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Context manager that turns errors of a full or read-only disk into a ValueError that names the file.

    Example:
        >>> with writing(Path("last.ckpt")):  # doctest: +ELLIPSIS
        ...     raise OSError(errno.EROFS, "Read-only file system")
        Traceback (most recent call last):
        ValueError: last.ckpt cannot be written (Read-only file system): choose a folder that is not read-only and ...
    """
    try:
        yield
    except (OSError, RuntimeError) as error:  # while torch.save handles an OSError, it raises a RuntimeError
        message = disk_message(error, file)
        if message is None:
            raise
        raise ValueError(message) from error
