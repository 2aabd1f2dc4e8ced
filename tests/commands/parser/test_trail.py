"""Errors in classes inside other classes name the inner class and the base that it lacks."""

from argparse import ArgumentError
from collections.abc import Callable
from typing import Union

import pytest
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from lightning_xai.commands.parser.class_checks import CheckedParser

LAMBDA = "torch.optim.lr_scheduler.LambdaLR"


class Halved:
    """A class with a required argument, for arguments that take a function."""

    def __init__(self, every: int) -> None:
        self.every = every

    def __call__(self, step: int) -> float:
        return 0.5 ** (step // self.every)


def train(scheduler: Callable[[Optimizer], LRScheduler | ReduceLROnPlateau]) -> None:
    """Takes a scheduler as objectives of users do."""


def train_too(scheduler: Callable[[Optimizer], Union[LRScheduler, ReduceLROnPlateau]]) -> None:  # noqa: UP007
    """The same in the spelling of Lightning's LRSchedulerCallable."""


def refused(scheduler: dict, function: Callable = train) -> str:
    parser = CheckedParser(prog="run.py fit", exit_on_error=False)
    parser.add_function_arguments(function, as_group=False)
    with pytest.raises((ArgumentError, ValueError)) as caught:
        parser.parse_object({"scheduler": scheduler})
    return str(caught.value)


@pytest.mark.parametrize(
    ("scheduler", "named"),
    [
        ({"class_path": LAMBDA}, "scheduler lacks lr_lambda, which LambdaLR needs: set it in init_args"),
        (
            {"class_path": LAMBDA, "init_args": {"lr_lambda": {"class_path": f"{__name__}.Halved"}}},
            "scheduler.init_args.lr_lambda lacks every, which Halved needs: set it in init_args",
        ),
        (
            {"class_path": LAMBDA, "init_args": {"lr_lambda": {"class_path": "os.system"}}},
            "scheduler.init_args.lr_lambda names os.system, which is not a class: name a class, or remove this setting",
        ),
    ],
)
def test_the_class_with_the_error_is_named(scheduler, named):
    assert named in refused(scheduler)


@pytest.mark.parametrize("function", [train, train_too])
def test_class_that_no_alternative_allows_is_named_with_all_of_them(function):
    message = refused({"class_path": "torch.optim.AdamW"}, function)
    assert "torch.optim.AdamW, which is not a class derived from LRScheduler or ReduceLROnPlateau; run.py" in message
