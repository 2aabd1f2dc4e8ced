"""What reaches the terminal: errors in one line, and none of the libraries' advertisements."""

from __future__ import annotations

import logging
import os
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

# each is either about a choice that this package made on purpose, or nothing that a user can change
SILENCED_WARNINGS = (
    ".*treespec, LeafSpec.*",
    ".*does not have many workers.*",
    ".*recommended to use .self.log.*sync_dist=True.*",  # our metrics are synchronized already
    ".*Checkpoint directory .* exists and is not empty.*",  # as it should when a run is resumed
    ".*`isinstance.treespec.*",
)
SILENCED_MESSAGES = ("litlogger", "Loading `train_dataloader` to estimate")


@contextmanager
def quiet() -> Iterator[None]:
    """Silences the messages above while a command runs."""
    logger = logging.getLogger("lightning.pytorch.utilities.rank_zero")

    def keep(record: logging.LogRecord) -> bool:
        return not any(part in record.getMessage() for part in SILENCED_MESSAGES)

    logger.addFilter(keep)
    try:
        with warnings.catch_warnings():
            for message in SILENCED_WARNINGS:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        logger.removeFilter(keep)


def one_line(message: str) -> str:
    """Returns the parser's message without its list of types tried and without the value's whole contents."""
    noise = ("Does not validate", "Subtypes:", "Errors:", "Given value type:", "- Expected a <class 'NoneType'>")
    lines = [line.strip().removeprefix("- ") for line in message.splitlines() if not line.strip().startswith(noise)]
    shown = [line if len(line) < 120 else f"{line[:117]}..." for line in lines if line]
    return " ".join(shown)


def message_for_user(error: BaseException) -> str | None:
    """Returns the message in one line if this package raised the error, also inside a constructor, or else None."""
    while error is not None and "jsonargparse" in _raised_in(error).parts:  # it wraps what a constructor raises
        error = error.__cause__ or error.__context__
    if isinstance(error, ValueError) and _raised_in(error).is_relative_to(Path(__file__).parent):
        return " ".join(str(error).split("\n"))
    return None


def _raised_in(error: BaseException) -> Path:
    """Returns the file of the innermost frame."""
    frames = traceback.extract_tb(error.__traceback__)
    return Path(frames[-1].filename) if frames else Path()


def rank() -> int:
    """Returns this process's number, also before its process group exists."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", os.environ.get("SLURM_PROCID", 0))))


def say(message: str) -> None:
    """Prints once, not once a process."""
    if rank() == 0:
        print(message)
