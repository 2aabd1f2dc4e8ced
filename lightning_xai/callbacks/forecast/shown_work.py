"""Shows the work of a callback in the progress bar of its trainer."""

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
        """Shows `text()` now, or later, or not at all."""
        ...


def show_work(trainer: Trainer, text: Callable[[], str]) -> None:
    """Shows work of a callback, such as the method that explains at the moment, beside the trainer's own progress.

    Example:
        >>> show_work(Trainer(logger=False, enable_progress_bar=False, accelerator="cpu"), lambda: "test: random")
    """
    if isinstance(trainer.progress_bar_callback, ShowsWork):
        trainer.progress_bar_callback.show_work(text)
