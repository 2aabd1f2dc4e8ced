"""The hash of the contents of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

BLOCK = 1 << 22  # number of bytes read at a time


def sha256_of(*files: Path) -> str:
    """Returns the SHA-256 hash of the contents of files, read one after another.

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
