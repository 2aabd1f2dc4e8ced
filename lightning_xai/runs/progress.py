"""Messages of a run: prints them in one process only, and silences needless messages of libraries."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from lightning_xai.runs.ranks import rank

# warnings about deliberate choices of this package, or about things that a user cannot change
SILENCED_WARNINGS = (
    ".*treespec, LeafSpec.*",
    ".*does not have many workers.*",
    ".*recommended to use .self.log.*sync_dist=True.*",  # our metrics are synchronized already
    ".*Checkpoint directory .* exists and is not empty.*",  # a resumed run has checkpoints there
    ".*`isinstance.treespec.*",
    r"[\s\S]*import path denylist",  # commands/class_checks.py refuses such classes with a better message
)
SILENCED_MESSAGES = ("litlogger", "Loading `train_dataloader` to estimate")


@contextmanager
def quiet() -> Iterator[None]:
    """Silences SILENCED_WARNINGS and SILENCED_MESSAGES while a command runs.

    Example:
        >>> with quiet():
        ...     warnings.warn("the dataloader does not have many workers")
    """
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


def say(message: str) -> None:
    """Prints a message in the first process only.

    Example:
        >>> say("resuming")
        resuming
    """
    if rank() == 0:
        print(message)
