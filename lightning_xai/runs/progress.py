"""What a run says of itself while it works: once, not once a process, and without the libraries' advertisements."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from lightning_xai.runs.ranks import rank

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


def say(message: str) -> None:
    """Prints once, not once a process."""
    if rank() == 0:
        print(message)
