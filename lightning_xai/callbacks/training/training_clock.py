"""Measures the training time of a run, even if the run is killed and resumed."""

from __future__ import annotations

import time
from pathlib import Path

from lightning import Callback, LightningModule, Trainer

from lightning_xai.callbacks.base import is_dry_run
from lightning_xai.runs.folder import RunFolder


class TrainingClock(Callback):
    """After each epoch and after the fit, writes to the manifest how long training took and whether it has ended.

    A resumed training adds its seconds to the seconds recorded at the last finished epoch. The sum is close to the time
    of an uninterrupted training.

    Args:
        began: value of `time.monotonic()` when the command started, so that the time to load the data counts too.

    Example:
        >>> import tempfile
        >>> trainer = Trainer(default_root_dir=tempfile.mkdtemp(), accelerator="cpu", logger=False)
        >>> clock = TrainingClock(began=time.monotonic() - 5)
        >>> clock.on_fit_start(trainer, LightningModule())
        >>> clock.on_fit_end(trainer, LightningModule())
        >>> manifest = RunFolder(Path(trainer.default_root_dir)).manifest
        >>> manifest["trained"], manifest["training_seconds"] >= 5
        (True, True)
    """

    def __init__(self, began: float) -> None:
        self.began = began
        self._before = 0.0  # seconds of training before the run was resumed

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._before = RunFolder(Path(trainer.default_root_dir)).manifest.get("training_seconds", 0.0)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write(trainer, trained=False)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write(trainer, trained=True)

    def _write(self, trainer: Trainer, *, trained: bool) -> None:
        if trainer.is_global_zero and not is_dry_run(trainer):
            seconds = round(self._before + time.monotonic() - self.began, 3)
            RunFolder(Path(trainer.default_root_dir)).write_manifest(training_seconds=seconds, trained=trained)
