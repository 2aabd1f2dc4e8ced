"""The file of the network that an AML run explains; the run's checkpoints hold its path and hash, not its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

AML = "aml"  # key of the checkpoints of an AML run, with facts about the scorer and the explained network


def explained_path(explained: Mapping[str, str], run: str, hash_of: Callable[[str], str]) -> str:
    """Returns the path of the network that an AML run explains.

    Args:
        explained: "path" and "hash" of the network's file.
        run: path of the AML run, for messages.
        hash_of: returns the hash of the file or folder at a path.

    Raises:
        ValueError: the file was moved or has changed.

    Example:
        >>> explained_path({"path": "f.ckpt", "hash": "0a1b"}, "runs/aml/seed0", lambda path: "2c3d")
        Traceback (most recent call last):
        ValueError: runs/aml/seed0 explains f.ckpt with hash 0a1b, but its hash is now 2c3d: put the former file back, \
or pretrain a new scorer
    """
    path, expected = explained["path"], explained["hash"]
    try:
        found = hash_of(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{run} explains {path} with hash {expected}, which is not there: put it back") from error
    if found != expected:
        raise ValueError(
            f"{run} explains {path} with hash {expected}, but its hash is now {found}: put the former file back, or "
            "pretrain a new scorer"
        )
    return path
