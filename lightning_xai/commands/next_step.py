"""Suggests a command that a user may want to run after a fit."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from lightning import Callback

from lightning_xai.chains.base import ChainCallback
from lightning_xai.chains.stages import Chain
from lightning_xai.runs.folder import RunFolder


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
    return f'next: {program} explain --ckpt {shlex.quote(run.as_posix())} --text "A TEXT OF YOURS"'


def run_to_explain(run: RunFolder, callbacks: Sequence[Callback]) -> RunFolder:
    """Returns the run that the suggested command names: `run` or, if it is a stage of a chain, the chain's first run.

    The later stages of a chain train on texts without some of their tokens, so their networks are not for new texts.

    Args:
        run: the run that ended last.
        callbacks: the callbacks of this run.

    Example:
        >>> run_to_explain(RunFolder(Path("runs/tm/seed0")), []).path.as_posix()
        'runs/tm/seed0'
    """
    for callback in callbacks:
        if isinstance(callback, ChainCallback):
            return Chain.of_run(run.path, callback.stages)[0].root
    return run
