"""Suggests a command that a user may want to run after a fit."""

from __future__ import annotations

import sys
from pathlib import Path


def next_step(run: Path, program: str | None = None) -> str:
    """Returns a line with a command that explains a text with a run's network. The user inserts the text.

    Args:
        run: folder of the run.
        program: what the user types to start commands; if None, this is derived from the command line of this process.

    Example:
        >>> next_step(Path("runs/tm/seed0"), program="lightning-xai")
        'next: lightning-xai explain --ckpt runs/tm/seed0 --text "A TEXT OF YOURS"'
    """
    if program is None:
        program = "lightning-xai" if Path(sys.argv[0]).stem == "lightning-xai" else "python run.py"
    return f'next: {program} explain --ckpt {run.as_posix()} --text "A TEXT OF YOURS"'
