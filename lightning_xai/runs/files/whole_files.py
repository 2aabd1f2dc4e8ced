"""Writes files atomically: a temporary file in the same folder is written, synced to disk and then renamed."""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_xai.runs.files.disk import writing
from lightning_xai.runs.locks.lock import check_owned
from lightning_xai.runs.locks.owner import process_runs

if TYPE_CHECKING:
    import pandas as pd

PARTIAL = ".partial"
CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # errors of file systems that cannot sync folders


def partial_file(file: Path) -> Path:
    """Returns the temporary file that this process will rename to `file`. Its name contains the host and the pid.

    Example:
        >>> name = partial_file(Path("runs/tm/seed0/manifest.json")).name
        >>> name.startswith("manifest.json."), name.endswith(f".{os.getpid()}.partial")
        (True, True)
    """
    return file.with_name(f"{file.name}.{platform.node()}.{os.getpid()}{PARTIAL}")


def write_whole(file: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file atomically: it is never incomplete, even after a kill or if two jobs write it at the same time.

    An earlier file of this name remains until the new file is complete on the disk.

    Args:
        file: the file. Its folder is created if it is missing.
        write: function that writes the contents to a given path.

    Raises:
        ValueError: the disk is full or read-only, or another process has taken over a lock of this process.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "folder", "table.csv")
        >>> write_whole(file, lambda partial: partial.write_text("a,b"))
        >>> file.read_text(), len(list(file.parent.iterdir()))
        ('a,b', 1)
    """
    check_owned()
    partial = partial_file(file)
    with writing(file):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write(partial)
            sync(partial)
            check_owned()  # checked again, because another process may have taken over the lock meanwhile
            partial.replace(file)
        except BaseException:
            with contextlib.suppress(OSError):  # if the file's name is not usable, unlink fails too
                partial.unlink(missing_ok=True)
            raise
        sync(file.parent)


def write_csv(table: pd.DataFrame, file: Path) -> Path:
    """Writes a table, without its index, to a CSV file atomically. Returns the file.

    Example:
        >>> import tempfile
        >>> import pandas as pd
        >>> file = Path(tempfile.mkdtemp(), "roar.csv")
        >>> write_csv(pd.DataFrame({"method": ["random"], "value": [0.5]}), file).read_text().splitlines()
        ['method,value', 'random,0.5']
    """
    write_whole(file, lambda partial: table.to_csv(partial, index=False))
    return file


def write_json(file: Path, facts: dict[str, Any]) -> None:
    """Writes a JSON file atomically.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "manifest.json")
        >>> write_json(file, {"status": "finished"})
        >>> json.loads(file.read_text())
        {'status': 'finished'}
    """
    write_whole(file, lambda partial: partial.write_text(json.dumps(facts, indent=1)))


def read_json(file: Path) -> dict[str, Any]:
    """Returns the contents of a JSON file that this package wrote.

    Raises:
        ValueError: the file is damaged.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "facts.json")
        >>> write_json(file, {"status": "finished"})
        >>> read_json(file)
        {'status': 'finished'}
    """
    try:
        facts = json.loads(file.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise damaged(file, error) from error
    if not isinstance(facts, dict):
        raise damaged(file, "it is not a JSON object")
    return facts


def damaged(file: Path, reason: object, remedy: str = "remove it and run the command again") -> ValueError:
    """Returns the ValueError for a file of a run that cannot be read.

    Args:
        file: the file.
        reason: what is wrong with it.
        remedy: advice for the user.

    Example:
        >>> str(damaged(Path("runs/tm/seed0/manifest.json"), "it is not a JSON object"))
        'runs/tm/seed0/manifest.json is damaged (it is not a JSON object): remove it and run the command again'
    """
    first = (str(reason).strip().splitlines() or [type(reason).__name__])[0]
    return ValueError(f"{file} is damaged ({first[:100]}): {remedy}")


def remove_partial_files(folder: Path, file: str = "", *, owned: bool = True) -> None:
    """Removes the temporary files of killed processes from a folder.

    Temporary files of running processes on this machine are kept.

    Args:
        folder: the folder.
        file: name of the file whose temporary files are removed; "" for all files of the folder.
        owned: whether this process holds the folder's lock, so that no process on another machine writes there. If
            not, temporary files from other machines are kept.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "last.ckpt.gone.17.partial").touch()
        >>> partial_file(folder / "last.ckpt").touch()
        >>> remove_partial_files(folder)
        >>> len(list(folder.iterdir()))
        1
    """
    for partial in folder.glob(f"{glob.escape(file)}.*{PARTIAL}" if file else f"*{PARTIAL}"):
        host, _, pid = partial.name.removesuffix(PARTIAL).rpartition(".")
        is_here = host.endswith(f".{platform.node()}") and pid.isdigit()
        if process_runs(int(pid)) is False if is_here else owned:
            partial.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Waits until the contents of a file, or the names of the files in a folder, are on the disk.

    Example:
        >>> import tempfile
        >>> sync(Path(tempfile.mkdtemp()))
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in CANNOT_SYNC:
            raise
    finally:
        os.close(handle)
