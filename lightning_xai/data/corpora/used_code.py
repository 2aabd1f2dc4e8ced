"""Finds the files of this package that a piece of code imports, directly or through other files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
_IMPORT = re.compile(rf"^\s*(?:from|import)\s+{PACKAGE.name}\.([\w.]+)(?:\s+import\s+\(?([\w, ]+))?", re.MULTILINE)


def used_files(code: str) -> set[Path]:
    """Returns the files of this package that some Python code imports, directly or through other files.

    Example:
        >>> code = "from lightning_xai.functional.model_files.file_digest import sha256_of"
        >>> sorted(path.name for path in used_files(code))
        ['file_digest.py']
    """
    used: set[Path] = set()
    waiting = list(_imported(code))
    while waiting:
        path = waiting.pop()
        if path not in used:
            used.add(path)
            waiting += _imported_by(path)
    return used


@cache
def hash_with_imports(code: str) -> str:
    """Returns a hash of Python code and of the files of this package that it uses.

    Example:
        >>> code = "from lightning_xai.functional.model_files.file_digest import sha256_of"
        >>> hash_with_imports(code) == hash_with_imports("from hashlib import sha256")
        False
    """
    digest = hashlib.sha256(code.encode())
    for path in sorted(used_files(code)):
        digest.update(f"\0{path.relative_to(PACKAGE).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:20]


@cache
def _imported_by(path: Path) -> tuple[Path, ...]:
    return tuple(_imported(path.read_text(encoding="utf-8")))


def _imported(code: str) -> Iterator[Path]:
    """Yields the files of the modules that the code imports directly."""
    for module, names in _IMPORT.findall(code):
        place = PACKAGE.joinpath(*module.split("."))
        candidates = [place, *(place / name.strip() for name in names.split(","))]
        yield from (path for path in (one.with_suffix(".py") for one in candidates) if path.is_file())
