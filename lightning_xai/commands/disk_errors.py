"""Turns errors that are caused by full or read-only disks into one-line messages."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from lightning_xai.runs.files.disk import disk_message


@contextlib.contextmanager
def one_line_for_disks() -> Iterator[None]:
    """Context manager that turns a disk's or file system's error into a ValueError with a one-line message.

    Raises:
        ValueError: the disk is full or read-only, or the user has no permission to read or write a file.

    Example:
        >>> with one_line_for_disks():  # doctest: +ELLIPSIS
        ...     raise OSError(28, "No space left on device", "runs/tm/seed0/events.out")
        Traceback (most recent call last):
        ValueError: runs/tm/seed0/events.out cannot be read or written (No space left on device): free some space ...
    """
    before = threading.excepthook

    def hook(raised: Any) -> None:
        # a disk error in TensorBoard's writer thread gets no traceback, because TensorBoard raises the same error again
        # in the main thread
        if raised.exc_value is None or disk_message(raised.exc_value) is None:
            before(raised)

    threading.excepthook = hook
    try:
        yield
    except (OSError, RuntimeError) as error:  # torch turns some OSErrors into RuntimeErrors
        message = disk_message(error, action="read or written")
        if message is None:
            raise
        raise ValueError(message) from error
    finally:
        threading.excepthook = before
