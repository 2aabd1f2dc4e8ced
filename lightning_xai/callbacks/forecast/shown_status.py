"""Lets a callback show in the trainer's progress bar what it is doing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from lightning import Trainer


@runtime_checkable
class ShowsStatus(Protocol):
    """A progress bar that also shows what other callbacks are doing.

    Example:
        >>> from lightning.pytorch.callbacks import TQDMProgressBar
        >>> isinstance(TQDMProgressBar(), ShowsStatus)
        False
    """

    def show_status(self, text: Callable[[], str]) -> None:
        """Shows the result of `text()`. A progress bar may ignore a call that comes very soon after another call."""
        ...


def show_status(trainer: Trainer, text: Callable[[], str]) -> None:
    """Shows in the trainer's progress bar what a callback is doing, such as which method is running.

    Example:
        >>> show_status(Trainer(logger=False, enable_progress_bar=False, accelerator="cpu"), lambda: "test: random")
    """
    if isinstance(trainer.progress_bar_callback, ShowsStatus):
        trainer.progress_bar_callback.show_status(text)
