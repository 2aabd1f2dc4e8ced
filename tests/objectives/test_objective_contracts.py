"""Laws of every objective; the classes are found by walking the package."""

import importlib
import inspect
import pkgutil
import typing
from dataclasses import replace
from typing import Any

import pytest
import torch
from lightning import seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint

import lightning_xai.objectives
from lightning_xai.objectives.base import Objective
from tests.conftest import tiny_classifier
from tests.objectives.conftest import fast_optimizer, loader, planted_batch, quiet_trainer, save_teacher

DATA: dict[str, Any] = {"num_classes": 5, "multilabel": True}


def discovered() -> list[type[Objective]]:
    classes = []
    for module in pkgutil.iter_modules(lightning_xai.objectives.__path__, "lightning_xai.objectives."):
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and issubclass(value, Objective) and value.__module__ == module.name:
                classes += [] if inspect.isabstract(value) else [value]
    return sorted(classes, key=lambda objective: objective.__name__)


OBJECTIVES = discovered()
every_objective = pytest.mark.parametrize("objective_class", OBJECTIVES, ids=lambda objective: objective.__name__)


def required_arguments(objective_class) -> set[str]:
    """Returns the names of the constructor's arguments without a default; *args and **kwargs may stay empty."""
    parameters = inspect.signature(objective_class).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {p.name for p in named if p.default is p.empty}


def test_an_objective_that_passes_its_arguments_on_requires_none_of_them():
    class PassesOn(Objective):
        def __init__(self, network: Any, *args: Any, scale: float, **kwargs: Any) -> None:
            super().__init__(network, *args, **kwargs)

    assert required_arguments(PassesOn) == {"network", "scale"}


@pytest.fixture
def build(teacher_path):
    """Returns a function that builds an objective on a tiny PLM-CA, which every objective can train."""
    parts: dict[str, Any] = {"teacher": teacher_path, "optimizer": fast_optimizer}

    def build(objective_class, network=None, **arguments):
        parameters = inspect.signature(objective_class).parameters
        missing = sorted(required_arguments(objective_class) - {"network", *parts})
        if missing:
            pytest.skip(f"this test does not know what to give for {missing}")
        given = {name: value for name, value in parts.items() if name in parameters or name == "optimizer"}
        if "search" in parameters:  # these laws hold for any number of steps, and few are fast
            given["search"] = replace(parameters["search"].default, num_steps=3)
        network = network or tiny_classifier("plm_ca", dropout=0.1)
        return objective_class(network, **(given | arguments))

    return build


@pytest.fixture
def ready(build):
    def ready(objective_class):
        objective = build(objective_class)
        objective.setup("fit")
        return objective

    return ready


@every_objective
def test_every_constructor_argument_is_typed(objective_class):
    parameters = list(inspect.signature(objective_class.__init__).parameters.values())[1:]
    assert [p.name for p in parameters if p.annotation is p.empty] == []


@every_objective
def test_a_word_that_an_option_does_not_have_is_refused_at_construction(objective_class, build):
    hints = typing.get_type_hints(objective_class.__init__)
    for name in [name for name, hint in hints.items() if typing.get_origin(hint) is typing.Literal]:
        with pytest.raises(ValueError, match=f"{name} is 'no such word'"):
            build(objective_class, **{name: "no such word"})


@every_objective
def test_loss_is_finite_and_reaches_the_encoder(objective_class, ready):
    objective = ready(objective_class)
    losses = objective.losses(planted_batch(**DATA))
    weight = next(p for name, p in objective.named_parameters() if "layer.0.attention.self.value.weight" in name)
    (gradient,) = torch.autograd.grad(losses["loss"], weight)
    assert all(value.dim() == 0 and value.isfinite() for value in losses.values()) and gradient.abs().max() > 0


@every_objective
def test_losses_leave_modes_flags_and_gradients_as_they_were(objective_class, ready):
    objective = ready(objective_class)
    next(objective.network.children()).eval()
    next(objective.parameters()).requires_grad_(False)
    modes = [module.training for module in objective.modules()]
    flags = [parameter.requires_grad for parameter in objective.parameters()]
    weights = [parameter.clone() for parameter in objective.parameters()]
    objective.losses(planted_batch(**DATA))
    assert [module.training for module in objective.modules()] == modes
    assert [parameter.requires_grad for parameter in objective.parameters()] == flags
    assert all(parameter.grad is None for parameter in objective.parameters())
    assert all(torch.equal(a, b) for a, b in zip(weights, objective.parameters(), strict=True))


@every_objective
def test_losses_draw_no_random_numbers_in_eval_mode(objective_class, ready):
    objective = ready(objective_class).eval()
    before = torch.get_rng_state()
    objective.losses(planted_batch(**DATA))
    assert torch.equal(torch.get_rng_state(), before)


@every_objective
def test_single_label_networks_are_trained_too(objective_class, build, tmp_path):
    network = tiny_classifier("plm_ca", num_classes=3, multilabel=False)
    if "teacher" in inspect.signature(objective_class).parameters:
        teacher = save_teacher(tiny_classifier("plm_ca", num_classes=3, multilabel=False), tmp_path / "single.ckpt")
        objective = build(objective_class, network, teacher=teacher)
    else:
        objective = build(objective_class, network)
    quiet_trainer(tmp_path, max_epochs=1).fit(objective, loader(1))


@every_objective
def test_fit_with_bfloat16_clipping_accumulation_and_validation_changes_the_weights(objective_class, build, tmp_path):
    objective = build(objective_class)
    trainer = quiet_trainer(
        tmp_path, max_epochs=1, precision="bf16-mixed", gradient_clip_val=1.0, accumulate_grad_batches=2
    )
    if not objective.automatic_optimization:
        trainer = quiet_trainer(tmp_path, max_epochs=1, precision="bf16-mixed")
    objective.setup("fit")  # so that weights taken from a teacher do not count as a change
    before = {name: value.clone() for name, value in objective.network.named_parameters()}
    trainer.fit(objective, loader(4, **DATA), loader(1, **DATA))
    assert trainer.callback_metrics["loss"].isfinite() and "val/micro_f1" in trainer.callback_metrics
    assert any(not torch.equal(before[name], value) for name, value in objective.network.named_parameters())


@every_objective
def test_run_resumed_after_an_epoch_ends_with_the_weights_of_an_uninterrupted_one(
    objective_class, build, tmp_path, monkeypatch
):
    monkeypatch.setenv("PL_GLOBAL_SEED", "0")

    def fit(folder, **arguments):
        seed_everything(5, verbose=False)
        objective = build(objective_class)
        saving = ModelCheckpoint(folder, "{epoch}", save_top_k=-1)
        trainer = quiet_trainer(folder, max_epochs=2, enable_checkpointing=True, callbacks=[saving])
        trainer.fit(objective, loader(2, **DATA), loader(1, **DATA), weights_only=True, **arguments)
        return objective.state_dict()

    whole = fit(tmp_path / "whole")
    resumed = fit(tmp_path / "resumed", ckpt_path=tmp_path / "whole" / "epoch=0.ckpt")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
