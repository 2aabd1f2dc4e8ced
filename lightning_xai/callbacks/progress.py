"""Shows a run's progress: as a bar on a terminal, and as plain lines if the output goes to a file or pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar, TQDMProgressBar
from lightning.pytorch.trainer.states import TrainerFn

from lightning_xai.callbacks.base import data_of, split_of_loader
from lightning_xai.callbacks.training.training_lines import TrainingLines, epoch_name, validation_numbers
from lightning_xai.runs.pace import EVERY, FIRST_LINE, Pace, time_left
from lightning_xai.runs.progress import say
from lightning_xai.runs.splits import VALIDATION


def progress_bar() -> ProgressBar:
    """Returns a progress bar if the standard output is a terminal, otherwise a PlainProgress.

    Example:
        >>> isinstance(progress_bar(), PlainProgress)  # the output of a doctest goes into a file
        True
    """
    return TerminalProgress() if sys.stdout.isatty() else PlainProgress()


class _TrainingProgress(ProgressBar):
    """Base class of both progress displays. Prints a line with the validation metrics at the end of every epoch.

    A validation before the end of an epoch also prints such a line. Only the first process prints.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_shown = True

    def new_pace(self) -> Pace:
        """Returns a Pace for work that starts now. The Pace decides when the next line is due."""
        return Pace()

    def disable(self) -> None:
        self.is_shown = False

    def enable(self) -> None:
        self.is_shown = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self.training = TrainingLines(trainer, self.new_pace())

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs, batch, batch_idx) -> None:
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        self.training.add(batch)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_validation_start(trainer, pl_module)
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self.training.rate.pause()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_validation_end(trainer, pl_module)
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self.training.rate.resume()
            if not trainer.is_last_batch:  # the line at the end of the epoch reports the last validation
                self.write(f"validation: {self.training.epoch(trainer)}")

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_epoch_end(trainer, pl_module)
        self.write(self.training.epoch(trainer))
        self.training.pace.has_spoken()

    def write(self, line: str) -> None:
        if self.is_shown:
            self.print(line)


class PlainProgress(_TrainingProgress):
    """Shows progress as plain lines: about every 30 s, after each validation, and at the end of each training epoch.

    Args:
        first: seconds from the start of a training or evaluation to its first line.
        every: seconds between later lines.

    Example:
        >>> PlainProgress().show_status(lambda: "test: random explains examples 1-32 of 40")  # too early for a line
    """

    def __init__(self, first: float = FIRST_LINE, every: float = EVERY) -> None:
        super().__init__()
        self.first, self.every = first, every
        self._pace = self.new_pace()

    def new_pace(self) -> Pace:
        return Pace(first=self.first, every=self.every)

    def print(self, *args: Any, **kwargs: Any) -> None:
        say(" ".join(map(str, args)))

    def show_status(self, text: Callable[[], str]) -> None:
        if self.is_shown and self._pace.is_due():
            say(text())

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs, batch, batch_idx) -> None:
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if not trainer.is_last_batch and self.is_shown and self.training.pace.is_due():
            say(self.training.step(trainer))

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_validation_start(trainer, pl_module)
        self._pace = self.new_pace()

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._pace = self.new_pace()

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._pace = self.new_pace()

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        self._batch(VALIDATION, batch_idx, trainer.num_val_batches, dataloader_idx)

    def on_test_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        self._batch(split_of_loader(trainer, dataloader_idx), batch_idx, trainer.num_test_batches, dataloader_idx)

    def on_predict_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        split = getattr(data_of(trainer), "predict_split", "predict")
        self._batch(split, batch_idx, trainer.num_predict_batches, dataloader_idx)

    def _batch(self, split: str, batch_idx: int, numbers: Any, loader: int) -> None:
        """Prints which batch of a split has just been evaluated, if a line is due."""
        if not self.is_shown or not self._pace.is_due():
            return
        sizes = numbers if isinstance(numbers, list) else [numbers]
        done = sum(sizes[:loader]) + batch_idx + 1
        left = self._pace.seconds_left(done=done, total=sum(sizes))
        say(f"{split}: batch {batch_idx + 1:,} of {sizes[loader]:,}{time_left(left)}")


class TerminalProgress(_TrainingProgress, TQDMProgressBar):
    """A progress bar with the loss and the monitored validation metric. Each validation and epoch adds a line of text.

    Example:
        >>> TerminalProgress().is_enabled
        True
    """

    BAR_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"

    def __init__(self) -> None:
        super().__init__()
        self._pace = Pace(first=0.0, every=0.2)  # at most 5 updates a second, because a terminal is slow

    def disable(self) -> None:
        _TrainingProgress.disable(self)
        TQDMProgressBar.disable(self)

    def enable(self) -> None:
        _TrainingProgress.enable(self)
        TQDMProgressBar.enable(self)

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
        shown = super().get_metrics(trainer, pl_module)
        shown.pop("v_num", None)
        for name, value in list(validation_numbers(trainer).items())[:1]:
            shown[f"val_{name}"] = f"{value:.3f}"
        return shown

    def on_train_epoch_start(self, trainer: Trainer, *args: Any) -> None:
        super().on_train_epoch_start(trainer, *args)
        self.train_progress_bar.set_description(epoch_name(trainer.current_epoch, trainer.max_epochs))

    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0) -> None:
        super().on_validation_batch_start(trainer, pl_module, batch, batch_idx, dataloader_idx)
        self.val_progress_bar.set_description(VALIDATION, refresh=False)

    def on_test_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0) -> None:
        super().on_test_batch_start(trainer, pl_module, batch, batch_idx, dataloader_idx)
        self.test_progress_bar.set_description(split_of_loader(trainer, dataloader_idx), refresh=False)

    def show_status(self, text: Callable[[], str]) -> None:
        bars = (self._test_progress_bar, self._predict_progress_bar, self._val_progress_bar)
        bar = next((bar for bar in bars if bar is not None and not bar.disable), None)
        if bar is not None and self._pace.is_due():
            bar.bar_format = "{desc}"  # no count of batches, because a batch may take minutes
            bar.set_description_str(time_first(text()))


def time_first(text: str) -> str:
    """Moves the remaining time to the beginning of a line, because a narrow terminal cuts the end.

    Example:
        >>> time_first("test: ig (method 1 of 2) explains examples 1-4 of 40, about 3 min left")
        'about 3 min left, test: ig (method 1 of 2) explains examples 1-4 of 40'
        >>> time_first("test: ig (method 1 of 2) explains examples 1-4 of 40")
        'test: ig (method 1 of 2) explains examples 1-4 of 40'
    """
    work, _, left = text.rpartition(", ")
    return f"{left}, {work}" if left.endswith(" left") else text
