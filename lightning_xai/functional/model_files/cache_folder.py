"""Finds the folder in which downloaded, encoded and converted data are cached."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "LIGHTNING_XAI_CACHE"


def cache_folder(cache_dir: str | Path | None) -> Path:
    """Returns `cache_dir` if it is given, else $LIGHTNING_XAI_CACHE if it is set, else ~/.cache/lightning_xai.

    Example:
        >>> cache_folder("my/cache").as_posix()
        'my/cache'
    """
    return Path(cache_dir or os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "lightning_xai")
