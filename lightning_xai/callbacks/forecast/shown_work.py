"""Lets a callback show its current work in the trainer's progress bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from lightning import Trainer


@runtime_checkable
class ShowsWork(Protocol):
    """A progress bar that also shows the work of other callbacks.

    Example:
        >>> from lightning.pytorch.callbacks import TQDMProgressBar
        >>> isinstance(TQDMProgressBar(), ShowsWork)
        False
    """

    def show_work(self, text: Callable[[], str]) -> None:
        """May show `text()`; a bar limits how often it does so."""
        ...


def show_work(trainer: Trainer, text: Callable[[], str]) -> None:
    """Shows a callback's current work, such as the running method, in the trainer's progress bar.

    Example:
        >>> show_work(Trainer(logger=False, enable_progress_bar=False, accelerator="cpu"), lambda: "test: random")
    """
    if isinstance(trainer.progress_bar_callback, ShowsWork):
        trainer.progress_bar_callback.show_work(text)
