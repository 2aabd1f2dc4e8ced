"""Mistakes in the settings of trainer, seed and optimizer: one line names the setting, its value and the remedy."""

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning import Trainer

from lightning_xai.commands.execution import user_errors
from lightning_xai.commands.parser.trainer_settings import (
    check_global_seed,
    check_optimizers,
    check_training_settings,
    trainer_settings,
)

LONGEST_LINE = 300


def line_of(function, *arguments, **options) -> str:
    """Returns the line in which a function ends, as a command would print it."""
    with pytest.raises(SystemExit) as caught, user_errors():
        function(*arguments, **options)
    line = str(caught.value.code)
    assert line.startswith("error: ") and "\n" not in line and len(line) <= LONGEST_LINE
    return line


TRAINER_SETTINGS: list[dict[str, Any]] = [
    {"accelerator": "tpu9"},
    {"accelerator": "cuda"},
    {"accelerator": "gpu"},
    {"accelerator": "mps"},
    {"devices": 0},
    {"devices": -3},
    {"devices": "many"},
    {"devices": [7]},
    {"devices": 1.5},
    {"accelerator": "cuda", "devices": [0]},
    {"num_nodes": 0},
    {"strategy": "foo"},
    {"max_epochs": -5},
    {"max_steps": -7},
    {"max_time": "soon"},
    {"profiler": "foo"},
    {"fast_dev_run": -1},
    {"limit_train_batches": 1.5},
    {"overfit_batches": -1},
    {"gradient_clip_algorithm": "none"},
    {"accumulate_grad_batches": 0},
    {"check_val_every_n_epoch": 0},
    {"reload_dataloaders_every_n_epochs": -1},
]


@pytest.mark.parametrize(
    "wrong",
    TRAINER_SETTINGS,
    ids=lambda wrong: " ".join(f"{name}={value}" for name, value in wrong.items()),
)
@pytest.mark.filterwarnings("ignore:.*")
def test_setting_that_the_trainer_refuses_is_named(wrong):
    settings = {"accelerator": "cpu", "logger": False} | wrong
    needed = {"cuda": torch.cuda, "gpu": torch.cuda, "mps": torch.backends.mps}.get(str(settings["accelerator"]))
    if needed is not None and needed.is_available():
        pytest.skip("this machine has the accelerator")

    def build(settings):
        with trainer_settings(settings):
            return Trainer(**settings)

    line = line_of(build, settings)
    name, value = list(wrong.items())[0]
    assert f"trainer.{name} is {value}" in line and ("leave it out" in line)
    build({"accelerator": "auto", "logger": False})  # the remedy


@pytest.mark.parametrize("wrong", [{"max_epochs": 0}, {"gradient_clip_val": -1.0}], ids=str)
def test_setting_with_which_a_fit_would_not_train_is_named(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"trainer.{name} is {value}.*leave it out"):
        check_training_settings(wrong)


SEEDS = [-1, 5_000_000_000, 1.5, True, None]


@pytest.mark.parametrize("seed", SEEDS)
def test_seed_out_of_range_is_named(seed):
    assert f"seed_everything is {seed}: give a whole number from 0 to 4294967295" in line_of(check_global_seed, seed)


OPTIMIZERS: list[dict[str, Any]] = [
    {"lr": math.nan}, {"lr": -1.0}, {"lr": math.inf}, {"weight_decay": -1.0}, {"betas": (2.0, 0.9)},
]  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    OPTIMIZERS,
    ids=lambda arguments: json.dumps(arguments),
)
@pytest.mark.parametrize("name", ["optimizer", "dual_optimizer"])
def test_argument_that_an_optimizer_refuses_is_named(name, arguments):
    objective = SimpleNamespace(**{name: lambda parameters: torch.optim.AdamW(parameters, **arguments)})
    line = line_of(check_optimizers, objective)
    assert f"model.init_args.{name}" in line and str(next(iter(arguments.values()))).strip("()").split(",")[0] in line
