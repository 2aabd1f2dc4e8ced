"""Computes a hash of the contents of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

BLOCK = 1 << 22  # number of bytes read at a time


def sha256_of(*files: Path) -> str:
    """Returns one SHA-256 hash (in hexadecimal) of the contents of all the given files, in the given order.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "a.txt")
        >>> _ = file.write_text("good")
        >>> sha256_of(file)[:12]
        '770e607624d6'
    """
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    return digest.hexdigest()
