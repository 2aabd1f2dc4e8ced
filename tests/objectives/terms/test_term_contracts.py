"""Laws of every term; the classes are found by walking the package."""

import importlib
import inspect
import pkgutil
import typing
from dataclasses import replace
from typing import Any

import pytest
import torch

import lightning_xai.objectives.terms
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.objectives import laws as objective_laws
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms import laws
from lightning_xai.objectives.terms.base import Term, TermValue
from lightning_xai.objectives.terms.input_gradient import InputGradient
from lightning_xai.objectives.terms.supervised_attention import SupervisedAttention
from tests.conftest import tiny_classifier
from tests.objectives import two_processes
from tests.objectives.conftest import fast_optimizer


def discovered() -> list[type[Term]]:
    classes = []
    for module in pkgutil.iter_modules(lightning_xai.objectives.terms.__path__, "lightning_xai.objectives.terms."):
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and issubclass(value, Term) and value.__module__ == module.name:
                classes += [] if inspect.isabstract(value) or value.__name__.startswith("_") else [value]
    return sorted(classes, key=lambda term: term.__name__)


TERMS = discovered()
every_term = pytest.mark.parametrize("term_class", TERMS, ids=lambda term: term.__name__)


def build(term_class: type[Term], **arguments: Any) -> Term:
    parameters = inspect.signature(term_class).parameters
    if "method" in parameters:
        arguments.setdefault("method", InputXGradient("sum"))
    required = [
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD and p.name not in arguments
    ]
    if required:
        pytest.skip(f"this test does not know what to give for {required}")
    if "search" in parameters:  # these laws hold for any number of steps, and few are fast
        arguments["search"] = replace(parameters["search"].default, num_steps=3)
    return term_class(**arguments)


@every_term
@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
def test_law(law, term_class):
    law(lambda: build(term_class))


@every_term
@pytest.mark.parametrize("law", objective_laws.LAWS, ids=lambda law: law.__name__)
def test_law_of_an_objective_with_the_term(law, term_class, monkeypatch):
    monkeypatch.setenv("PL_GLOBAL_SEED", "0")
    make = lambda network: Supervised(network, terms={"term": build(term_class)}, optimizer=fast_optimizer)  # noqa: E731
    law(make, multilabel=term_class.suits_multilabel)


@every_term
def test_a_word_that_an_option_does_not_have_is_refused_at_construction(term_class):
    hints = typing.get_type_hints(term_class.__init__)
    for name in [name for name, hint in hints.items() if typing.get_origin(hint) is typing.Literal]:
        with pytest.raises(ValueError, match=f"{name} is 'no such word'"):
            build(term_class, **{name: "no such word"})


@every_term
@pytest.mark.parametrize("weight", [-0.5, float("nan"), float("inf"), [(0.0, -1.0)], [(0.5, 1.0), (0.2, 1.0)], []])
def test_weight_out_of_range_is_refused(term_class, weight):
    with pytest.raises(ValueError, match="weight is"):
        build(term_class, weight=weight)


class Own(Term):
    """A term outside the package that keeps all laws. Its subclasses break one law each."""

    def value(self, clean, prepared):
        return TermValue(clean.output.logits.square().mean(dim=1))


class Scalar(Own):
    def value(self, clean, prepared):
        return TermValue(super().value(clean, prepared).values.mean())


class LooksAtNeighbors(Own):
    def value(self, clean, prepared):
        values = super().value(clean, prepared).values
        return TermValue(values * values.sum())


class SwitchesModes(Own):
    def prepare(self, task):
        task.network.eval()


class Detached(Own):
    def value(self, clean, prepared):
        return TermValue(super().value(clean, prepared).values.detach())


class ReturnsATensor(Own):
    def value(self, clean, prepared):
        return super().value(clean, prepared).values


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (ReturnsATensor, "ReturnsATensor.value returned Tensor: return TermValue"),
        (Scalar, r"its values have shape \[\]"),
        (LooksAtNeighbors, "due to other examples, the values change"),
        (SwitchesModes, "it changes the objective's own loss or the terms after it"),
        (Detached, "its gradient reaches no trainable weight"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_term_outside_the_package_that_breaks_a_law_is_told_which(term, message):
    state = torch.get_rng_state()
    with pytest.raises(ValueError, match=message):
        laws.check_term(term)
    assert torch.equal(torch.get_rng_state(), state)


def test_an_objective_depends_on_the_batch_if_one_of_its_terms_does():
    for igr, independent in ((InputGradient(), True), (InputGradient(per="micro_batch"), False)):
        objective = Supervised(tiny_classifier("plm_ca"), terms={"size": Own(), "igr": igr})
        assert objective.independent_of_batch == independent


@pytest.mark.slow
def test_a_term_outside_the_package_that_keeps_all_laws_passes():
    laws.check_term(Own)


def test_every_term_is_tried_on_two_processes():
    tried = {type(make()) for make in two_processes.TERMS.values()} | {SupervisedAttention}
    assert tried == set(TERMS)
