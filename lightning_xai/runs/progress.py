"""Prints a run's messages in one process only, and silences libraries' messages that users do not need."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lightning_xai.runs.ranks import rank

PACKAGE = Path(__file__).parents[1]

# regular expressions for warnings about deliberate choices of this package, or about things that users cannot change
SILENCED_WARNINGS = (
    ".*treespec, LeafSpec.*",
    ".*does not have many workers.*",
    ".*recommended to use .self.log.*sync_dist=True.*",  # irrelevant: this package synchronizes its metrics itself
    ".*Checkpoint directory .* exists and is not empty.*",  # normal: a resumed run has checkpoints in its folder
    ".*`isinstance.treespec.*",
    r"[\s\S]*import path denylist",  # commands/parser/class_checks.py gives a better message
    ".*is smaller than the logging interval.*",  # normal for short epochs
    ".*resuming from a checkpoint that ended before the epoch ended.*",  # deliberate: the epoch is repeated, see README
    ".*`tensorboardX` has been removed.*",  # irrelevant: tensorboard is always installed
)
SILENCED_MESSAGES = (
    "litlogger",
    "Loading `train_dataloader` to estimate",
    "GPU available: ",  # redundant: the summary of a run names the device
    "TPU available: ",
    "HPU available: ",
    "Seed set to ",  # redundant: the summary of a run names the seed
    "Restoring states from the checkpoint",  # redundant: this package itself says that a run is resumed
    "Restored all states from the checkpoint",
    "Loaded model weights from the checkpoint",
    "`Trainer.fit` stopped: `max_",
    "`Trainer(limit_",  # redundant: repeats the value of an option
    "LOCAL_RANK: ",
    "Initializing distributed: ",  # redundant: the summary of a run names the number of processes
    "distributed_backend=",
    "Automatic Mixed Precision (AMP)",  # redundant: the summary of a run names the precision
    "Missing logger folder",
    "You are using a CUDA device",  # deliberate: this package chooses the precision of matrix products
)
LOGGERS = (
    "lightning.pytorch.utilities.rank_zero",
    "lightning.fabric.utilities.rank_zero",
    "lightning.fabric.utilities.seed",
)
# one entry for each active `quiet` context, so the list is empty outside of commands. An entry is the set of the
# command's printed lines: a context inside another one has the same set
_SAID: list[set[str]] = []


@contextmanager
def quiet(*messages: str) -> Iterator[None]:
    """Silences SILENCED_WARNINGS and SILENCED_MESSAGES while a command runs, and shortens all other warnings.

    Args:
        messages: texts. Log messages that contain one of these texts are silenced too.

    Example:
        >>> with quiet():
        ...     warnings.warn("the dataloader does not have many workers")
    """
    loggers, formatted = [logging.getLogger(name) for name in LOGGERS], warnings.formatwarning

    def keep(record: logging.LogRecord) -> bool:
        return not any(part in record.getMessage() for part in (*SILENCED_MESSAGES, *messages))

    for logger in loggers:
        logger.addFilter(keep)
    warnings.formatwarning = _short_warning
    _SAID.append(_SAID[-1] if _SAID else set())
    try:
        with warnings.catch_warnings():
            for message in SILENCED_WARNINGS:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        _SAID.pop()
        warnings.formatwarning = formatted
        for logger in loggers:
            logger.removeFilter(keep)


def _short_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Returns a warning as one line. For a warning of another package, the line ends with the file and line number."""
    text = " ".join(str(message).split())
    place = "" if Path(filename).is_relative_to(PACKAGE) else f" ({Path(filename).name}, line {lineno})"
    return f"warning: {text}{place}\n"


def say(message: str) -> None:
    """Prints a message immediately, in the first process only. If a progress bar is shown, the message goes above it.

    Example:
        >>> say("resuming")
        resuming
    """
    if rank() != 0:
        return
    bar = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if bar is not None and getattr(bar, "_instances", None):
        bar.write(message)
        sys.stdout.flush()
    else:
        print(message, flush=True)


def unsaid(lines: Sequence[str]) -> list[str]:
    """Returns the `lines` that this command has not printed yet, so that the stages of a chain do not repeat lines.

    Outside of commands, returns all lines.

    Example:
        >>> with quiet():
        ...     unsaid(["train: 8 rows"]), unsaid(["train: 8 rows", "test: 4 rows"])
        (['train: 8 rows'], ['test: 4 rows'])
    """
    if not _SAID:
        return list(lines)
    new = [line for line in lines if line not in _SAID[-1]]
    _SAID[-1].update(new)
    return new


def flush_every_line() -> None:
    """Makes Python flush the standard output after each line, even if the output goes to a file or a pipe.

    Example:
        >>> flush_every_line()
    """
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)
