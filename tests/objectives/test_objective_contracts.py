"""Laws of every objective; the classes are found by walking the package."""

import importlib
import inspect
import os
import pkgutil
import typing
from dataclasses import replace
from typing import Any

import pytest
import torch

import lightning_xai.objectives
from lightning_xai.objectives import laws
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.dual_ascent import Constraint
from lightning_xai.objectives.evaluation import Evaluation
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.input_gradient import InputGradient
from tests.conftest import tiny_classifier
from tests.objectives.conftest import fast_optimizer, loader, quiet_trainer, save_teacher

DATA: dict[str, Any] = {"num_classes": 5, "multilabel": True}


def discovered() -> list[type[Objective]]:
    classes = []
    for module in pkgutil.iter_modules(lightning_xai.objectives.__path__, "lightning_xai.objectives."):
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and issubclass(value, Objective) and value.__module__ == module.name:
                classes += (
                    [] if inspect.isabstract(value) or value is Evaluation else [value]
                )  # Evaluation trains nothing
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
        if "constraints" in parameters:
            arguments = {"constraints": {"igr": Constraint(0.01)}, "terms": {"igr": InputGradient()}} | arguments
        missing = sorted(required_arguments(objective_class) - {"network", *parts, *arguments})
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
@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
def test_law(law, objective_class, build, monkeypatch):
    monkeypatch.setenv("PL_GLOBAL_SEED", "0")
    law(lambda network: build(objective_class, network))


@every_objective
def test_single_label_networks_are_trained_too(objective_class, build, tmp_path):
    network = tiny_classifier("plm_ca", num_classes=3, multilabel=False)
    if "teacher" in inspect.signature(objective_class).parameters:
        teacher = save_teacher(tiny_classifier("plm_ca", num_classes=3, multilabel=False), tmp_path / "single.ckpt")
        objective = build(objective_class, network, teacher=teacher)
    else:
        objective = build(objective_class, network)
    quiet_trainer(tmp_path, max_epochs=1).fit(objective, loader(1))


class Outside(Supervised):
    """An objective outside the package that keeps all laws. Its subclasses break one law each."""


class LacksLoss(Outside):
    def losses(self, batch):
        return {"cross_entropy": super().losses(batch)["loss"]}


class ReturnsExamples(Outside):
    def losses(self, batch):
        return {"loss": super().losses(batch)["loss"].expand(3)}


class LeavesGradients(Outside):
    def losses(self, batch):
        losses = super().losses(batch)
        losses["loss"].backward(retain_graph=True)
        return losses


class DrawsNumbers(Outside):
    def losses(self, batch):
        return {"loss": super().losses(batch)["loss"] * (1 + torch.rand(()))}


class HidesState(Outside):
    number = 0

    def losses(self, batch):
        self.number += 1
        return {"loss": super().losses(batch)["loss"] * self.number}


class SumsExamples(Outside):
    def losses(self, batch):
        return {"loss": super().losses(batch)["loss"] * len(batch)}


class CountsPadding(Outside):
    def losses(self, batch):
        return {"loss": super().losses(batch)["loss"] / batch.inputs.input_ids.shape[1]}


class ReturnsATensor(Outside):
    def losses(self, batch):
        return super().losses(batch)["loss"]


class ReturnsANumber(Outside):
    def losses(self, batch):
        return {"loss": 0.5}


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (
            SumsExamples,
            "a batch holds every example twice, the loss changes from .*: return a mean over the examples",
        ),
        (CountsPadding, "CountsPadding: padding changes the loss from .*attention_mask"),
        (ReturnsATensor, "ReturnsATensor.losses returned Tensor: return {"),
        (ReturnsANumber, "ReturnsANumber: loss is 0.5: return finite scalars as tensors"),
        (LacksLoss, '`losses` has only cross_entropy: return the loss to be minimized under the key "loss"'),
        (ReturnsExamples, "return finite scalars"),
        (LeavesGradients, "after `losses`, gradients are not as before"),
        (DrawsNumbers, "in eval mode, `losses` draws from torch's global random generator"),
        (HidesState, "a resumed fit ends with other weights"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_objective_outside_the_package_that_breaks_a_law_is_told_which(objective, message):
    environment, state = dict(os.environ), torch.get_rng_state()
    with pytest.raises(ValueError, match=message) as caught:
        laws.check_objective(lambda network: objective(network, optimizer=fast_optimizer))
    assert "\n" not in str(caught.value)
    assert dict(os.environ) == environment and torch.equal(torch.get_rng_state(), state)


@pytest.mark.slow
def test_an_objective_outside_the_package_that_keeps_all_laws_passes():
    laws.check_objective(Outside)


class SumsByDefinition(SumsExamples):
    def __init__(self, network: Any) -> None:
        super().__init__(network)
        self.independent_of_batch = False


def test_an_objective_may_say_that_its_loss_depends_on_the_batch():
    laws.loss_is_a_mean_over_examples(SumsByDefinition)
