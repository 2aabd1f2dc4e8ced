"""Prints a preview of a fit, before any other runs that the fit needs, such as the training of a teacher."""

from __future__ import annotations

from typing import Any

from lightning import LightningModule, Trainer

from lightning_xai.callbacks.base import callbacks_of
from lightning_xai.callbacks.forecast.forecast import Forecast
from lightning_xai.callbacks.run_summary import RunSummary


def say_ahead(trainer: Trainer, module: LightningModule, data: Any) -> None:
    """Prints a summary of a fit and the estimated durations of its training and test.

    If the fit first needs other runs, such as a teacher's training, the summary is printed before these runs.

    Prints nothing if no test follows the fit, or if the trainer has no callback Forecast. Also prints nothing on a GPU,
    because the network is not on its device yet, and with several processes, because they cannot communicate yet.

    Args:
        trainer: the trainer of the fit.
        module: the objective of the fit.
        data: the data module of the fit; this function sets it up.

    Example:
        >>> say_ahead(Trainer(logger=False, accelerator="cpu", enable_progress_bar=False), LightningModule(), None)
    """
    callbacks = callbacks_of(trainer)
    forecasts = [callback for callback in callbacks if isinstance(callback, Forecast) and callback.tests_after_fit]
    if not forecasts or trainer.world_size > 1 or trainer.strategy.root_device.type != "cpu":
        return
    data.prepare_data()
    data.setup("fit")
    data.setup("test")
    trainer.datamodule = data  # type: ignore[attr-defined]
    for callback in callbacks:
        if isinstance(callback, RunSummary):
            callback.on_fit_start(trainer, module)
    forecasts[0].on_fit_start(trainer, module)
