"""Finds the network that an AML run explains. An AML run pretrains a scorer, which gives tokens their scores.

The run's checkpoints contain only the path and hash of the explained network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

PRETRAINED = "pretrained"  # key in the facts about an explained network that was not trained after it was loaded
AML = "aml"  # key under which checkpoints of AML runs store facts about the scorer and the explained network


def explained_path(explained: Mapping[str, str], run: str, hash_of: Callable[[str], str]) -> str:
    """Returns the path of the network that an AML run explains.

    The network's path relative to the AML run is tried first, because the network and the run may have been moved
    together. The hash of the file must agree with the stored hash.

    Args:
        explained: "path" and "hash" of the network's file; "relative" (may be missing) is the file's path relative to
            the run's folder.
        run: path of the AML run or of its checkpoint.
        hash_of: function that returns the hash of the file or folder at a path.

    Raises:
        ValueError: the file was moved or has changed.

    Example:
        >>> explained_path({"path": "f.ckpt", "hash": "0a1b"}, "runs/aml/seed0", lambda path: "2c3d")
        Traceback (most recent call last):
        ValueError: runs/aml/seed0 explains the file f.ckpt (hash 0a1b), but this file now has the hash 2c3d: restore \
the file, or pretrain a new scorer
    """
    path, expected = explained["path"], explained["hash"]
    if "relative" in explained:
        folder = Path(run).parents[1] if Path(run).is_file() else Path(run)
        moved = str(folder / explained["relative"])
        if Path(moved).exists() and hash_of(moved) == expected:
            return moved
    try:
        hash_now = hash_of(path)
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{run} explains the file {path} (hash {expected}), which is gone: restore this file"
        ) from error
    if hash_now != expected:
        raise ValueError(
            f"{run} explains the file {path} (hash {expected}), but this file now has the hash {hash_now}: restore the "
            "file, or pretrain a new scorer"
        )
    return path
