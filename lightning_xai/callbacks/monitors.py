"""Checks that the values monitored by callbacks, such as EarlyStopping, are logged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lightning import Callback
from lightning.pytorch.callbacks import ModelCheckpoint

TRAIN = "train/"  # prefix of the values that an objective logs in each step


class Monitor(NamedTuple):
    """A logged value that a callback monitors.

    Args:
        owner: name of the callback in messages.
        name: name under which the value is logged.
        mode: "min" if a smaller value is better, else "max".
        is_required: whether the callback raises an error if the value is not logged.

    Example:
        >>> Monitor("EarlyStopping", "val/accuracy", "max").is_required
        True
    """

    owner: str
    name: str
    mode: str
    is_required: bool = True


def monitors_of(callbacks: Iterable[Callback]) -> Iterator[Monitor]:
    """Yields a Monitor for each callback that monitors a logged value.

    Example:
        >>> from lightning.pytorch.callbacks import EarlyStopping
        >>> next(monitors_of([EarlyStopping("val/accuracy", mode="max")])).name
        'val/accuracy'
    """
    for callback in callbacks:
        name, mode = getattr(callback, "monitor", None), getattr(callback, "mode", None)
        if isinstance(name, str) and isinstance(mode, str):
            # users configure this callback with the option `checkpoint`, so messages call it `checkpoint`
            is_best = isinstance(callback, ModelCheckpoint) and callback.filename == "best"
            owner = "checkpoint" if is_best else type(callback).__name__
            yield Monitor(owner, name, mode, getattr(callback, "strict", True))


def monitored_names(callbacks: Iterable[Callback]) -> set[str]:
    """Returns the names of all logged values that callbacks read after each validation.

    Example:
        >>> from lightning.pytorch.callbacks import EarlyStopping
        >>> from lightning_xai.callbacks.validation_values import ValidationValues
        >>> sorted(monitored_names([EarlyStopping("val/f1"), ValidationValues("validations.json", ["val/map"])]))
        ['val/f1', 'val/map']
    """
    callbacks = list(callbacks)
    names = {monitor.name for monitor in monitors_of(callbacks)}
    return names.union(*(getattr(callback, "tags", []) for callback in callbacks))


def check_train_monitors(callbacks: Iterable[Callback], losses: Iterable[str]) -> None:
    """Raises ValueError if a callback needs a training loss that the objective does not return.

    Args:
        callbacks: the callbacks of a trainer.
        losses: names of the losses that the objective returns.

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
    """Returns the ValueError for a monitored value that is never logged; `known` has the names to choose from.

    Example:
        >>> str(never_logged(Monitor("checkpoint", "val/f1", "max"), ["val/accuracy"]))
        "checkpoint.monitor is 'val/f1', which is never logged: choose one of val/accuracy"
    """
    shown = ", ".join(known)
    return ValueError(f"{monitor.owner}.monitor is {monitor.name!r}, which is never logged: choose one of {shown}")
