"""Lets one of several processes make a result, such as a file, while the others wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lightning_xai.runs.files.disk import writing
from lightning_xai.runs.files.whole_folders import make_private
from lightning_xai.runs.locks.lock import Taken, release, take
from lightning_xai.runs.progress import say

Result = TypeVar("Result")
POLL_SECONDS = 0.2


def found_or_made(find: Callable[[], Result | None], make: Callable[[], Result], lock: Path, *, waiting: str) -> Result:
    """Returns the result of `find` or, if `find` returns None, the result of `make`.

    A lock file prevents several processes from calling `make` at once. But `make` must be correct even if several
    processes call it at once, because locks do not work on some file systems. If this function creates the lock's
    folder, only the folder's owner may read it.

    Args:
        find: returns the result, or None if it does not exist yet.
        make: makes the result and returns it.
        lock: lock file that names the process that is making the result.
        waiting: line that is printed, once, if another process is making the result.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "words.txt")
        >>> find = lambda: file.read_text() if file.exists() else None
        >>> def make():
        ...     print("made once")
        ...     _ = file.write_text("good film")
        ...     return file.read_text()
        >>> lock = file.with_suffix(".lock")
        >>> [found_or_made(find, make, lock, waiting="wait for the words") for _ in range(2)]
        made once
        ['good film', 'good film']
    """
    has_said = False
    with writing(lock.parent):
        make_private(lock.parent)  # created before `take`, which would use other permissions
    while (result := find()) is None:
        try:
            take(lock)
        except Taken:
            if not has_said:
                say(waiting)
                has_said = True
            time.sleep(POLL_SECONDS)
            continue
        try:
            result = find()  # searched again, because another process may have just made the result
            return make() if result is None else result
        finally:
            release(lock)
    return result
