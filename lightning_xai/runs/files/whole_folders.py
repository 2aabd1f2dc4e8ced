"""Writes folders atomically: first to a temporary folder, which is then synced to disk and renamed."""

from __future__ import annotations

import errno
import os
import platform
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightning_xai.runs.files.disk import writing
from lightning_xai.runs.files.whole_files import PARTIAL, partial_file, sync
from lightning_xai.runs.locks.owner import process_runs

BAD = ".bad"  # suffix of a damaged folder that was renamed
OWNER_ONLY = 0o700
IS_THERE = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)  # errors of a rename to a name that is already in use


def write_whole_folder(folder: Path, write: Callable[[Path], Any]) -> bool:
    """Writes a folder atomically, accessible only to its owner. An existing folder is never changed.

    Any number of processes may write the same folder at once. The first process that finishes renames its
    temporary folder to `folder`; the others discard their temporary folders. No lock is needed.

    Args:
        folder: the folder.
        write: function that writes the files into a given folder.

    Returns:
        Whether `folder` was written by this process.

    Raises:
        ValueError: the disk is full or read-only.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp(), "corpus")
        >>> [write_whole_folder(folder, lambda partial: Path(partial, "a").write_text(text)) for text in "xy"]
        [True, False]
        >>> Path(folder, "a").read_text(), [path.name for path in folder.parent.iterdir()]
        ('x', ['corpus'])
    """
    partial = partial_file(folder)
    with writing(folder):
        try:
            make_private(folder.parent)
            shutil.rmtree(partial, ignore_errors=True)  # a killed process with the same pid may have left it
            partial.mkdir(mode=OWNER_ONLY)
            write(partial)
            for file in partial.iterdir():
                sync(file)
            sync(partial)
            is_first = _rename(partial, folder)
            sync(folder.parent)
            return is_first
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def make_private(folder: Path) -> None:
    """Creates a folder and its missing parents, readable only by the owner. An existing folder keeps its permissions.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp(), "cache", "corpora")
        >>> make_private(folder)
        >>> [oct(path.stat().st_mode & 0o777) for path in (folder, folder.parent)]
        ['0o700', '0o700']
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=OWNER_ONLY, exist_ok=True)


def set_aside(folder: Path) -> None:
    """Renames a damaged folder, so that it can be written again. Processes that have opened its files can go on.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp(), "corpus")
        >>> folder.mkdir()
        >>> set_aside(folder)
        >>> [path.suffix for path in folder.parent.iterdir()]
        ['.bad']
    """
    try:
        folder.rename(folder.with_name(f"{folder.name}.{secrets.token_hex(4)}{BAD}"))
    except FileNotFoundError:  # another process has already renamed the folder
        return


def remove_remains(parent: Path) -> None:
    """Removes the damaged folders in `parent`, and the temporary folders and files of this machine's killed processes.

    Example:
        >>> import tempfile
        >>> parent = Path(tempfile.mkdtemp())
        >>> (parent / f"a.{platform.node()}.4194999.partial").mkdir()
        >>> (parent / f"b.elsewhere.17.partial").mkdir()
        >>> (parent / "c.0a1b2c3d.bad").mkdir()
        >>> remove_remains(parent)
        >>> [path.name for path in parent.iterdir()]
        ['b.elsewhere.17.partial']
    """
    for path in parent.glob(f"*{PARTIAL}"):
        host, _, pid = path.name.removesuffix(PARTIAL).rpartition(".")
        if host.endswith(f".{platform.node()}") and pid.isdigit() and process_runs(int(pid)) is False:
            _remove(path)
    for path in parent.glob(f"*{BAD}"):
        shutil.rmtree(path, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _rename(partial: Path, folder: Path) -> bool:
    """Renames a folder. Returns False if another process has already given its own folder this name."""
    try:
        os.rename(partial, folder)
    except OSError as error:
        if error.errno in IS_THERE and folder.is_dir():
            return False
        raise
    return True
