"""Lets one of several processes make a result, such as a file, while the others wait for it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lightning_xai.runs.files.disk import writing
from lightning_xai.runs.files.whole_folders import make_private
from lightning_xai.runs.locks.lock import CLAIM, Taken, release, require_free, take
from lightning_xai.runs.locks.owner import Owner
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
            remove_dead_locks(lock.parent)
            result = find()  # searched again, because another process may have just made the result
            return make() if result is None else result
        finally:
            release(lock)
    return result


def remove_dead_locks(folder: Path) -> None:
    """Removes the lock files of killed processes from a folder.

    A process leaves a lock file if it is killed after it has made the result and before it releases the lock. Since the
    result exists, no other process would ever take this lock and thereby remove it. Claims, which are locks on the
    removal of a lock, are removed in the same way. A process that cannot be checked, for example on another machine,
    counts as alive.

    Example:
        >>> import tempfile
        >>> from dataclasses import replace
        >>> folder, this_process = Path(tempfile.mkdtemp()), Owner.of_this_process()
        >>> for name, owner in {"killed": replace(this_process, pid=4194999), "alive": this_process}.items():
        ...     _ = (folder / f"{name}.lock").write_text(owner.to_json())
        >>> remove_dead_locks(folder)
        >>> [path.name for path in folder.iterdir()]
        ['alive.lock']
    """
    this_process = Owner.of_this_process()
    for file in [*folder.glob("*.lock"), *folder.glob(f"*.lock.*{CLAIM}")]:
        with contextlib.suppress(OSError, Taken):  # another process was faster with this file, or another user owns it
            owner = Owner.from_json(file.read_bytes())
            if owner is not None and owner.is_running(this_process) is False:
                require_free(file)
