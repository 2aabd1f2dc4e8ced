"""Checks the settings of the trainer, the seed and the optimizer, so that errors name the wrong setting."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch import nn

from lightning_xai.commands.parser.choices import shortened
from lightning_xai.commands.terminal import unknown_argument

LARGEST_SEED = 2**32 - 1  # the largest seed that numpy accepts
AT_LEAST_ONE = ("accumulate_grad_batches", "check_val_every_n_epoch")  # Lightning divides by these
HARDWARE = ("accelerator", "devices", "num_nodes", "strategy")
TRAINER_HELP = "correct this setting or leave it out (run.py fit --help)"


def check_global_seed(seed: Any) -> None:
    """Raises ValueError if numpy does not accept a seed.

    Example:
        >>> check_global_seed(0)
        >>> check_global_seed(-1)
        Traceback (most recent call last):
        ValueError: seed_everything is -1: give a whole number from 0 to 4294967295
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"seed_everything is {seed}: give a whole number from 0 to {LARGEST_SEED}")


@contextmanager
def trainer_settings(settings: Mapping[str, Any]) -> Iterator[None]:
    """Context manager for building a trainer. It adds the wrong setting and its value to errors from Lightning.

    Args:
        settings: name of a trainer option -> its value.

    Raises:
        ValueError: Lightning does not accept a setting.

    Example:
        >>> from lightning import Trainer
        >>> with trainer_settings({"max_epochs": -5}):
        ...     Trainer(max_epochs=-5, logger=False)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: trainer.max_epochs is -5: `max_epochs` must be a non-negative integer or -1. ...
    """
    for name in AT_LEAST_ONE:
        number = settings.get(name)
        if isinstance(number, int) and number < 1:
            raise ValueError(f"trainer.{name} is {number}: give an integer of at least 1, or leave it out")
    try:
        yield
    except (MisconfigurationException, ValueError, TypeError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        if "/lightning/" not in frames[-1].filename.replace("\\", "/"):
            raise
        message = str(error)
        named = [name for name, value in settings.items() if value is not None and _is_about(message, name, value)]
        if not named:
            named = [name for name in HARDWARE if settings.get(name) is not None][:2]
        values = " and ".join(f"trainer.{name} is {shortened(settings[name])}" for name in named[:2]) or "trainer"
        raise ValueError(f"{values}: {shortened(message, 200).rstrip('.!')}; {TRAINER_HELP}") from error


def _is_about(message: str, name: str, value: Any) -> bool:
    return f"{name}" in message or isinstance(value, str) and len(value) > 2 and f"'{value}'" in message


def check_optimizers(objective: Any) -> None:
    """Raises ValueError if an objective's optimizer refuses its arguments, or if its learning rate is not finite.

    Args:
        objective: an objective. Its attributes `optimizer` and `dual_optimizer` are checked, if it has them.

    Example:
        >>> from types import SimpleNamespace
        >>> check_optimizers(SimpleNamespace(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1)))
        >>> check_optimizers(SimpleNamespace(dual_optimizer=lambda parameters: torch.optim.SGD(parameters, lr=-0.1)))
        Traceback (most recent call last):
        ValueError: model.init_args.dual_optimizer: Invalid learning rate: -0.1; correct the optimizer's arguments
    """
    for name in ("optimizer", "dual_optimizer"):
        if callable(build := getattr(objective, name, None)):
            _check_optimizer(build, f"model.init_args.{name}")


def _check_optimizer(build: Callable[[list[nn.Parameter]], torch.optim.Optimizer], setting: str) -> None:
    try:
        optimizer = build([nn.Parameter(torch.zeros(1))])
    except (ValueError, TypeError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        refuses_name = isinstance(error, TypeError) and "__init__()" in str(error)  # the optimizer has no such argument
        if not refuses_name and "/torch/optim/" not in frames[-1].filename.replace("\\", "/"):
            raise
        reason = unknown_argument(str(error)) or f"{shortened(error, 150)}; correct the optimizer's arguments"
        raise ValueError(f"{setting}: {reason}") from error
    for group in optimizer.param_groups:
        if not math.isfinite(float(group.get("lr", 0.0))):
            raise ValueError(f"{setting}: lr is {group['lr']}; give a finite number, such as 5e-5")


def check_training_settings(settings: Mapping[str, Any]) -> None:
    """Raises ValueError if a fit would train nothing, or would clip gradients to a negative norm.

    Args:
        settings: name of a trainer option -> its value.

    Example:
        >>> check_training_settings({"max_epochs": 3, "gradient_clip_val": None})
    """
    if settings.get("max_epochs") == 0:
        raise ValueError(
            "trainer.max_epochs is 0, which trains nothing: give at least 1, leave it out, or test the network without "
            "training by run.py test --ckpt_path initial"
        )
    if (settings.get("gradient_clip_val") or 0) < 0:
        raise ValueError(
            f"trainer.gradient_clip_val is {settings['gradient_clip_val']}: give a positive number, or leave it out to "
            "clip nothing"
        )


def check_own_steps(objective: Any, settings: Mapping[str, Any]) -> None:
    """Raises ValueError if an objective makes the optimizer's steps itself, but a trainer setting would change them.

    Such settings make the trainer accumulate or clip gradients.

    Args:
        objective: an objective.
        settings: name of a trainer option -> its value.

    Example:
        >>> from types import SimpleNamespace
        >>> check_own_steps(SimpleNamespace(automatic_optimization=False), {"gradient_clip_val": 1.0})
        Traceback (most recent call last):
        ValueError: trainer.gradient_clip_val is 1.0, but SimpleNamespace makes the optimizer's steps itself: set \
model.init_args.gradient_clip_val instead
    """
    if objective.automatic_optimization:
        return
    for name in ("accumulate_grad_batches", "gradient_clip_val"):
        if settings.get(name) not in (None, 0, *([1] if name == "accumulate_grad_batches" else [])):
            raise ValueError(
                f"trainer.{name} is {settings[name]}, but {type(objective).__name__} makes the optimizer's steps "
                f"itself: set model.init_args.{name} instead"
            )
