"""Lock files. Each lock file names the only process that may write to a folder or to a results file."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import threading
import time
from pathlib import Path

from lightning_xai.runs.files.disk import writing
from lightning_xai.runs.locks.owner import Owner
from lightning_xai.runs.progress import say

FOLDER_LOCK = "owner.lock"  # the lock file that protects its whole folder; any other lock file protects one file
TOUCH_SECONDS = 20.0  # interval at which an owner touches its lock file, to show that it is alive
PATIENCE_SECONDS = 120.0  # an owner on another machine counts as dead after this time without a touch
CLAIM = ".stale"  # suffix of a claim: a lock file that lets one process remove a stale lock
CLAIMED_SECONDS = 0.01  # interval at which processes check whether the process with the claim has removed the lock
WAIT = "wait until that command has ended, stop it, or choose another --experiment"

_held: dict[Path, Lock] = {}  # the locks that this process must hold to write


class Taken(ValueError):
    """Raised if another process owns a lock."""


class Lock:
    """A lock file whose owner is this process or, in a distributed command, the first process of the command.

    A daemon thread touches the file, so other machines see that the owner is alive. `take` and `follow` create locks.

    Args:
        file: the lock file.
        contents: contents of the file.
        owner: the owner; None in all other processes of a distributed command, which neither touch nor remove the file.
        touch_seconds: seconds from one touch of the file to the next.
    """

    def __init__(self, file: Path, contents: bytes, owner: Owner | None, touch_seconds: float) -> None:
        self.file = file
        self._contents = contents
        self._owner = owner
        self._checked = time.monotonic()
        self._released = threading.Event()
        if owner is not None:
            threading.Thread(target=self._show_life, args=(touch_seconds,), daemon=True).start()

    def covers(self, file: Path) -> bool:
        """Returns whether `file` is in the folder that this lock protects."""
        return self.file.name == FOLDER_LOCK and file.is_relative_to(self.file.parent)

    def check(self, every: float = 0.0) -> None:
        """Raises ValueError if the lock file is missing or names another owner.

        Does nothing if the last check was less than `every` seconds ago.
        """
        if (now := time.monotonic()) - self._checked < every:
            return
        self._checked = now
        if (contents := _contents(self.file)) != self._contents:
            now_of = f"belongs to {Owner.from_json(contents) or 'another command'} now" if contents else "lost its lock"
            raise ValueError(f"{_place(self.file)} {now_of}: this command ends without writing there")

    def release(self) -> None:
        """Removes the lock file if this process created the file and is still the owner that the file names."""
        self._released.set()
        if self._owner is not None and self._owner.pid == os.getpid():  # a forked child must not remove the file
            with contextlib.suppress(OSError):
                try:
                    _remove(self.file, self._contents, self._owner)
                except OSError:  # the disk is full, so `_remove` could not write its claim
                    if _contents(self.file) == self._contents:
                        self.file.unlink()

    def _show_life(self, touch_seconds: float) -> None:
        while not self._released.wait(touch_seconds):
            with contextlib.suppress(OSError):
                if _contents(self.file) == self._contents:
                    os.utime(self.file)


def take(
    file: Path, *, remedy: str = WAIT, patience: float = PATIENCE_SECONDS, touch_seconds: float = TOUCH_SECONDS
) -> None:
    """Makes this process the owner of a lock file until `release` is called or the process ends.

    Does nothing if this process already holds the lock or the lock of a parent folder. A dead owner's lock is removed.

    Args:
        file: the lock file. Its folder is created if it is missing.
        remedy: end of the error message, with advice for the user.
        patience: an owner on another machine counts as dead if its lock file does not change for this many seconds.
        touch_seconds: seconds from one touch of the file to the next.

    Raises:
        ValueError: another process owns the lock, or the file cannot be written.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "owner.lock")
        >>> take(file)
        >>> check_owned()
        >>> release()
        >>> file.exists()
        False
    """
    file = file.absolute()
    if any(lock.file == file or lock.covers(file) for lock in _held.values()):
        return
    this_process = Owner.of_this_process()
    contents = this_process.to_json().encode()
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        while not _create(file, contents):
            require_free(file, remedy=remedy, patience=patience)
    _held[file] = Lock(file, contents, this_process, touch_seconds)


def require_free(file: Path, *, remedy: str = WAIT, patience: float = PATIENCE_SECONDS) -> None:
    """Raises ValueError if a living process owns a lock file. Removes the lock of a dead owner.

    If the owner is in the same container, the operating system tells whether it is alive. Otherwise, the lock file is
    watched: a change shows that the owner is alive. If the file does not change for `patience` seconds (20 s for an
    empty file), the owner counts as dead.

    Args:
        file, remedy, patience: as in `take`.

    Example:
        >>> require_free(Path("no/such/owner.lock"))
    """
    if file.absolute() in _held:
        return
    this_process, first, began, claimed = Owner.of_this_process(), None, 0.0, 0.0
    while (now := _look(file)) is not None:
        owner = Owner.from_json(now[0])
        runs = None if owner is None else owner.is_running(this_process)
        is_requeued = owner is not None and owner.is_requeued(this_process)
        # owners write into their lock file right after creating it, so an empty file counts as stale sooner
        wait = patience if owner is not None else min(patience, TOUCH_SECONDS)
        changed = first is not None and now != first
        belongs = f"{_place(file)} belongs to {owner or 'another command'}"
        if not is_requeued and (runs or changed and runs is None):
            raise Taken(f"{belongs}: {remedy}")
        if is_requeued or runs is False or first is not None and time.monotonic() - began >= wait:
            if not _remove(file, now[0], this_process):
                claimed = claimed or time.monotonic()
                try:
                    require_free(_claim(file, now[0]), patience=patience)
                except Taken:
                    if time.monotonic() - claimed >= patience:  # give up: the process with the claim may be paused
                        raise
                time.sleep(CLAIMED_SECONDS)
            first = None
            continue
        if first is None:
            first, began = now, time.monotonic()
            say(f"{belongs}: waiting up to {wait:.0f} s to see whether the owner is alive")
        time.sleep(min(1.0, patience / 10))


def follow(file: Path, *, remedy: str = WAIT, patience: float = PATIENCE_SECONDS) -> None:
    """Waits until a lock file names the first process of this distributed command. Only the other processes call this.

    They never take the lock themselves. So this returns at once if the file does not exist or its owner is dead, and at
    the latest after 1.25 * `patience` seconds. If another command owns the lock, all processes raise the same error, at
    about the same time.

    Args:
        file, remedy, patience: as in `take`.

    Raises:
        ValueError: another command owns the lock.

    Example:
        >>> follow(Path("no/such/owner.lock"))
    """
    file = file.absolute()
    this_process, first, began = Owner.of_this_process(), None, time.monotonic()
    while (now := _look(file)) is not None and time.monotonic() - began < 1.25 * patience:
        owner = Owner.from_json(now[0])
        if owner is not None and owner.leads(this_process):
            _held[file] = Lock(file, now[0], None, TOUCH_SECONDS)
            return
        runs = None if owner is None else owner.is_running(this_process)
        is_requeued = owner is not None and owner.is_requeued(this_process)
        if not is_requeued and (runs or runs is None and first is not None and now != first):
            raise ValueError(f"{_place(file)} belongs to {owner or 'another command'}: {remedy}")
        if runs is False:  # the owner is dead, so the first process of this command will take the lock
            return
        first = first or now
        time.sleep(min(1.0, patience / 10))


def remove_claims(file: Path) -> None:
    """Removes the claims (`*.stale`) that killed processes left beside a lock file. This process must own the lock.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "owner.lock")
        >>> file.with_name("owner.lock.0a1b.stale").touch()
        >>> take(file)
        >>> remove_claims(file)
        >>> [path.name for path in file.parent.iterdir()], release()
        (['owner.lock'], None)
    """
    own = _claim(file, _contents(file) or b"")  # this claim stays: the process that made it may be running
    for claim in {*file.parent.glob(f"{file.name}.*{CLAIM}")} - {own}:
        claim.unlink(missing_ok=True)


def check_owned(every: float = 0.0) -> None:
    """Raises ValueError if another process has taken over a lock of this process. Called before every write.

    Args:
        every: smallest number of seconds between two checks. Callers that write often pass a number above 0.

    Example:
        >>> check_owned()
    """
    for lock in list(_held.values()):
        lock.check(every)


def release(file: Path | None = None) -> None:
    """Releases one lock of this process, or all its locks if `file` is None.

    Example:
        >>> release()
    """
    for held in list(_held) if file is None else [file.absolute()]:
        if held in _held:
            _held.pop(held).release()


atexit.register(release)


def _place(file: Path) -> Path:
    """Returns the folder or the file that a lock file, or a claim on a lock file, protects."""
    while file.suffix == CLAIM:
        file = file.with_suffix("").with_suffix("")
    return file.parent if file.name == FOLDER_LOCK else file.with_suffix("")


def _create(file: Path, contents: bytes) -> bool:
    """Creates a lock file. Returns False if the file already exists."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return False
    try:
        os.write(handle, contents)
    except OSError:  # for example, a full disk
        file.unlink()
        raise
    finally:
        os.close(handle)
    return True


def _remove(file: Path, contents: bytes, this_process: Owner) -> bool:
    """Removes a lock file if it has the given contents. Returns False if another process is about to remove it.

    This process first creates a claim (a second lock file, named after `contents`), and only then compares the contents
    of the lock file. So if another process has already replaced the stale lock by a new lock, the new lock is kept.
    """
    claim = _claim(file, contents)
    if not _create(claim, this_process.to_json().encode()):
        return False
    try:
        if _contents(file) == contents:
            file.unlink(missing_ok=True)
    finally:
        claim.unlink(missing_ok=True)
    return True


def _claim(file: Path, contents: bytes) -> Path:
    return file.with_name(f"{file.name}.{hashlib.sha256(contents).hexdigest()[:16]}{CLAIM}")


def _contents(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _look(file: Path) -> tuple[bytes, int] | None:
    """Returns the contents and the modification time of a lock file, or None if there is no file."""
    try:
        with file.open("rb") as stream:  # opening makes a network file system refresh its cache
            return stream.read(), os.fstat(stream.fileno()).st_mtime_ns
    except FileNotFoundError:
        return None
