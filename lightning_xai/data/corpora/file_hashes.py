"""Hashes of the contents of files. The hash of a file is remembered until the file changes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning_xai.functional.model_files.file_digest import sha256_of
from lightning_xai.runs.files.whole_files import read_json, write_json
from lightning_xai.runs.files.whole_folders import make_private

# the hash of a file that was changed less than this many seconds ago is not stored, since the file may change again
# without getting a new modification time
SETTLED_SECONDS = 2.0


class FileHashes:
    """Hashes of files, remembered by path, size, inode and modification time in nanoseconds.

    Args:
        folder: folder of the remembered hashes.
        verify: whether every file is read, even if its hash is remembered.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.csv").write_text("text,label")
        >>> FileHashes(folder / "hashes").of(folder / "a.csv")[:12]
        '64c5ac78c87a'
    """

    def __init__(self, folder: Path, *, verify: bool = False) -> None:
        self.folder = folder
        self.verify = verify

    def of(self, path: Path) -> str:
        """Returns a hash of a file's contents, or of the names and contents of a folder's files; "" for a missing path.

        Raises:
            ValueError: a file changes while it is read.
        """
        if not path.exists():
            return ""
        path = path.resolve()
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        known = self.folder / f"{hashlib.sha256(str(path).encode()).hexdigest()[:24]}.json"
        state = _state(files)
        if not self.verify and (remembered := _remembered(known)).get("state") == state:
            return str(remembered["sha256"])
        digest = _hash_of_folder(path, files) if path.is_dir() else sha256_of(path)
        if _state(files) != state:
            raise ValueError(f"{path} changed while it was read: wait until it stays unchanged, and run this again")
        if time.time() - max((file.stat().st_mtime for file in files), default=0.0) > SETTLED_SECONDS:
            make_private(self.folder)
            write_json(known, {"path": str(path), "state": state, "sha256": digest})
        return digest


def _hash_of_folder(folder: Path, files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(folder).as_posix()}\0{sha256_of(file)}\n".encode())
    return digest.hexdigest()


def _state(files: Sequence[Path]) -> str:
    """Returns a hash of the names, sizes, inodes and modification times of files."""
    facts = [(str(file), (stat := file.stat()).st_size, stat.st_ino, stat.st_mtime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _remembered(known: Path) -> dict[str, Any]:
    try:
        return read_json(known)
    except (OSError, ValueError):  # the file is missing or damaged, so `of` computes the hash again
        return {}
