"""The callbacks that every run has in addition to those in its configuration."""

from __future__ import annotations

from typing import Any

from lightning import Callback
from lightning.pytorch.callbacks import ProgressBar

from lightning_xai.callbacks.forecast.forecast import Forecast
from lightning_xai.callbacks.progress import progress_bar
from lightning_xai.callbacks.run_summary import RunSummary
from lightning_xai.callbacks.training.training_clock import TrainingClock
from lightning_xai.callbacks.training.training_scalars import TrainingScalars
from lightning_xai.commands.signals import EndOnSigterm


def run_callbacks(
    trainer: Any, *, began: float, seed: int, preflight: Callback, tests_after_fit: bool
) -> list[Callback]:
    """Returns the callbacks of every run, in order.

    The preflight comes before Forecast, so that Forecast does not count methods that failed in the preflight.

    Args:
        trainer: the settings of the trainer. A progress bar is added unless `enable_progress_bar` is false, or
            `callbacks` already contains a progress bar.
        began: value of `time.monotonic()` when the command started.
        seed: the seed of the run.
        preflight: the callback that tries methods and metrics before the real run.
        tests_after_fit: whether a test follows the fit.

    Example:
        >>> from types import SimpleNamespace
        >>> settings = SimpleNamespace(enable_progress_bar=False, callbacks=None)
        >>> chosen = run_callbacks(settings, began=0.0, seed=0, preflight=Callback(), tests_after_fit=True)
        >>> [type(callback).__name__ for callback in chosen]
        ['RunSummary', 'EndOnSigterm', 'TrainingClock', 'Callback', 'Forecast', 'TrainingScalars']
    """
    own = [
        RunSummary(seed),
        EndOnSigterm(),
        TrainingClock(began),
        preflight,
        Forecast(tests_after_fit=tests_after_fit),
        TrainingScalars(),
    ]
    given = trainer.callbacks if isinstance(trainer.callbacks, list) else []
    has_bar = any(isinstance(callback, ProgressBar) for callback in given)
    if trainer.enable_progress_bar is not False and not has_bar:
        own.append(progress_bar())
    return own
