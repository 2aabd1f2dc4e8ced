"""Writes checkpoint files atomically, and checks that a checkpoint file is complete."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch

from lightning_xai.runs.files.whole_files import write_whole


def save_checkpoint(checkpoint: dict[str, Any], file: Path) -> None:
    """Writes a checkpoint atomically: a temporary file in the same folder is written and then replaces the old file.

    Lightning itself writes to the system's temporary folder. If this folder is on another file system, Lightning then
    copies the file, and a kill during the copy leaves an incomplete checkpoint.

    Raises:
        ValueError: the disk is full or read-only, or another process has taken over the run's folder.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "checkpoints", "last.ckpt")
        >>> save_checkpoint({"epoch": 3}, file)
        >>> torch.load(file, weights_only=True)
        {'epoch': 3}
    """
    write_whole(file, lambda partial: _write(checkpoint, partial))


def _write(checkpoint: dict[str, Any], partial: Path) -> None:
    with partial.open("wb") as stream:  # if given a path, torch would store the temporary name in the file
        torch.save(checkpoint, stream)


def require_whole(file: Path) -> None:
    """Raises ValueError if a checkpoint is incomplete. Earlier versions of this package left such files when killed.

    Files that are not checkpoints pass this check; they cause an error only when they are read.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "last.ckpt")
        >>> file.touch()
        >>> require_whole(file)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: .../last.ckpt is incomplete (0 bytes): ...
    """
    with file.open("rb") as stream:
        head = stream.read(2)
    # a checkpoint is a zip file with its index at the end, so an incomplete file has no index. After a power cut,
    # all bytes of a file may be 0
    if head.strip(b"\0") == b"" or head == b"PK" and not zipfile.is_zipfile(file):
        raise ValueError(
            f"{file} is incomplete ({file.stat().st_size:,} bytes): remove it and run fit again, which trains from the "
            "beginning if last.ckpt is missing"
        )
