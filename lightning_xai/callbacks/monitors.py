"""Checks that the numbers monitored by callbacks, such as EarlyStopping, are logged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lightning import Callback
from lightning.pytorch.callbacks import ModelCheckpoint

TRAIN = "train/"  # prefix of the numbers that an objective logs in each step


class Monitor(NamedTuple):
    """A number that a callback monitors.

    Args:
        owner: name of the callback, as messages show it.
        name: name under which the number is logged.
        mode: "min" if a smaller number is better, else "max".
        is_required: whether a missing number is an error.

    Example:
        >>> Monitor("EarlyStopping", "val/accuracy", "max").is_required
        True
    """

    owner: str
    name: str
    mode: str
    is_required: bool = True


def monitors_of(callbacks: Iterable[Callback]) -> Iterator[Monitor]:
    """Yields the numbers that callbacks monitor.

    Example:
        >>> from lightning.pytorch.callbacks import EarlyStopping
        >>> next(monitors_of([EarlyStopping("val/accuracy", mode="max")])).name
        'val/accuracy'
    """
    for callback in callbacks:
        name, mode = getattr(callback, "monitor", None), getattr(callback, "mode", None)
        if isinstance(name, str) and isinstance(mode, str):
            # the callback of the option `checkpoint`, which every run has
            is_best = isinstance(callback, ModelCheckpoint) and callback.filename == "best"
            owner = "checkpoint" if is_best else type(callback).__name__
            yield Monitor(owner, name, mode, getattr(callback, "strict", True))


def check_train_monitors(callbacks: Iterable[Callback], losses: Iterable[str]) -> None:
    """Raises ValueError if a callback monitors a training loss that the objective does not return.

    Args:
        callbacks: the callbacks of a trainer.
        losses: names of the losses of the objective.

    Example:
        >>> from lightning.pytorch.callbacks import EarlyStopping
        >>> check_train_monitors([EarlyStopping("train/los")], ["loss"])
        Traceback (most recent call last):
        ValueError: EarlyStopping.monitor is 'train/los', which is never logged: choose one of train/loss
    """
    known = [f"{TRAIN}{name}" for name in losses]
    for monitor in monitors_of(callbacks):
        if monitor.is_required and monitor.name.startswith(TRAIN) and monitor.name not in known:
            raise never_logged(monitor, known)


def never_logged(monitor: Monitor, known: Iterable[str]) -> ValueError:
    """Returns the ValueError for a monitored number that is never logged.

    Example:
        >>> str(never_logged(Monitor("checkpoint", "val/f1", "max"), ["val/accuracy"]))
        "checkpoint.monitor is 'val/f1', which is never logged: choose one of val/accuracy"
    """
    shown = ", ".join(known)
    return ValueError(f"{monitor.owner}.monitor is {monitor.name!r}, which is never logged: choose one of {shown}")
