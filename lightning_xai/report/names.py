"""Short names of experiments and runs: paths relative to the deepest folder that contains all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def common_folder(folders: Sequence[Path]) -> Path:
    """Returns the deepest folder that contains all of `folders`.

    Example:
        >>> common_folder([Path("/runs/sst/roar"), Path("/runs/babi/roar")]).as_posix()
        '/runs'
        >>> common_folder([Path("/runs/roar")]).as_posix()
        '/runs'
    """
    return Path(os.path.commonpath([folder.resolve().parent for folder in folders]))


def experiment_names(folders: Sequence[Path]) -> list[str]:
    """Returns names of experiments for tables and figures: paths relative to their common folder.

    Example:
        >>> experiment_names([Path("runs/sst/roar"), Path("runs/babi/roar")])
        ['sst/roar', 'babi/roar']
    """
    common = common_folder(folders)
    return [folder.resolve().relative_to(common).as_posix() for folder in folders]


def run_names(runs: Sequence[Path]) -> list[str]:
    """Returns names of runs for tables and figures: paths relative to their common folder, with dots for slashes.

    Example:
        >>> run_names([Path("runs/tm/seed0"), Path("runs/roar/ig/seed0")])
        ['tm.seed0', 'roar.ig.seed0']
    """
    return [name.replace("/", ".") for name in experiment_names(runs)]
