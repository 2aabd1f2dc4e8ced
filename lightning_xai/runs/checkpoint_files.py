"""Checkpoint files that are whole at every moment, and the check that a file was not cut off."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch

from lightning_xai.runs.whole_files import write_whole


def save_checkpoint(checkpoint: dict[str, Any], file: Path) -> None:
    """Writes a checkpoint beside its place and renames it; the earlier checkpoint stays until then.

    Lightning writes to the temporary folder instead. If that is another file system, its move copies the file, and a
    kill leaves a cut one.

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
    with partial.open("wb") as stream:  # with a path, torch would write the file's name into the file
        torch.save(checkpoint, stream)


def require_whole(file: Path) -> None:
    """Raises ValueError if a checkpoint was cut off while it was written, as earlier versions could leave it.

    Files of other kinds pass; whoever reads them raises its own error.

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
    # a zip file's table of contents is at its end; after a power cut, blocks may be zeros
    if head.strip(b"\0") == b"" or head == b"PK" and not zipfile.is_zipfile(file):
        raise ValueError(
            f"{file} is incomplete ({file.stat().st_size:,} bytes): remove it and run fit again, which trains from the "
            "beginning if last.ckpt is missing"
        )
