"""The `check_` functions answer alike if a part has the wrong kind, or does not fit its base class."""

import inspect
from typing import Any

import pytest

import lightning_xai as lx
from lightning_xai.api import check_method, check_metric, check_model, check_objective, check_source, check_term
from lightning_xai.attributions.base import AttributionMethod, DifferentiableAttribution
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.data.sources.base import TextSource
from lightning_xai.data.sources.planted import Planted
from lightning_xai.functional.own_parts import require_fit
from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.metrics.complexity import Entropy
from lightning_xai.models.base import Classifier
from lightning_xai.models.bilstm import BiLSTMAttention
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.base import Term
from lightning_xai.objectives.terms.input_gradient import InputGradient
from tests.conftest import tiny_classifier

OF_OBJECTS: list[tuple[Any, ...]] = [
    (check_method, AttributionMethod, Gradient, "Gradient"),
    (check_metric, AttributionMetric, Entropy, "Entropy"),
    (check_model, Classifier, BiLSTMAttention, "BiLSTMAttention"),
    (check_source, TextSource, Planted, "Planted"),
]
OF_CLASSES: list[tuple[Any, ...]] = [
    (check_objective, Objective, lambda: Supervised(tiny_classifier("plm_ca")), "lambda network: Supervised"),
    (check_term, Term, InputGradient, "lambda: InputGradient"),
]


@pytest.mark.parametrize(("check", "base", "part_class", "name"), OF_OBJECTS)
def test_a_class_in_place_of_an_object_is_told_to_call_it(check, base, part_class, name):
    with pytest.raises(ValueError, match=rf"^{name} is a class, not an object: pass {name}\("):
        check(part_class)


@pytest.mark.parametrize(("check", "base", "make", "name"), OF_CLASSES)
def test_an_object_in_place_of_a_class_is_told_to_pass_the_class(check, base, make, name):
    with pytest.raises(ValueError, match=rf"is an object, not a class: pass .*{name}\(...\)"):
        check(make())


@pytest.mark.parametrize(("check", "base", "part", "name"), OF_OBJECTS + OF_CLASSES)
@pytest.mark.parametrize("other", ["text", dict])
def test_a_part_of_another_kind_is_told_its_base_class(check, base, part, name, other):
    with pytest.raises(ValueError, match=f"derive (its|the) class from {base.__name__}"):
        check(other)


def test_a_class_that_needs_more_arguments_is_told_to_use_a_function():
    class Scaled(Supervised):
        def __init__(self, network: Any, scale: float) -> None:
            super().__init__(network)

    make: Any = Scaled  # a type checker would refuse the class
    message = r"Scaled\(network\) fails .*'scale'\): pass lambda network: Scaled\(...\)"
    with pytest.raises(ValueError, match=message):
        check_objective(make)


def test_a_function_that_returns_a_class_is_told_to_call_it():
    make: Any = lambda: InputGradient  # noqa: E731 - a type checker would refuse the function
    with pytest.raises(ValueError, match=r"InputGradient is a class, not an object: pass InputGradient\(\)"):
        check_term(make)


# of type Any, since mypy would also refuse the classes below
AnyEntropy: Any = Entropy
AnyGradient: Any = Gradient
AnyBiLSTM: Any = BiLSTMAttention
AnyPlanted: Any = Planted


class LacksPredict(AnyEntropy):
    def measure(self, attribution, batch):
        return None


class LacksGraph(AnyGradient):
    def scores(self, model, inputs, targets):
        return None


class NamesOptionOtherwise(AnyBiLSTM):
    def forward(self, inputs, embeds=None, *, output_attentions=False, output_hidden_states=False):
        return None


class HidesAnOption(AnyBiLSTM):
    def forward(self, inputs, *, inputs_embeds=None, **options):
        return None


class NeedsMore(AnyPlanted):
    def load(self, folder):
        return None


class SignIsAMethod(AnyGradient):
    def has_sign(self):
        return True


class PassesAreANumber(AnyGradient):
    passes = 3


@pytest.mark.parametrize(
    ("part_class", "message"),
    [
        (
            LacksPredict,
            r"measure has the parameters \(self, attribution, batch\), .*: write def measure\(self, .*predict\)",
        ),
        (LacksGraph, r"LacksGraph.scores .*: write def scores\(self, model, inputs, targets, \*, create_graph=False\)"),
        (NamesOptionOtherwise, r"forward has the parameters \(self, inputs, embeds=None, \*, output_att"),
        (HidesAnOption, "HidesAnOption.forward has the parameters"),
        (NeedsMore, r"NeedsMore.load has the parameters \(self, folder\), .*: write def load\(self\)"),
        (SignIsAMethod, "SignIsAMethod.has_sign is a method, not a property: write @property"),
        (PassesAreANumber, r"passes is 3, not a method: write def passes\(self, num_tokens, num_targets\)"),
        (type("Empty", (Term,), {}), r"Empty.value is missing: define value\(self, clean, prepared\)"),
        (type("Bare", (Classifier,), {"embed": 1}), "Bare.embed is 1, not a method"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_class_that_does_not_fit_its_base_class_is_told_which_method(part_class, message):
    with pytest.raises(ValueError, match=message) as caught:
        require_fit(part_class)
    assert "\n" not in str(caught.value)


def test_required_parameters_may_have_other_names_and_further_options():
    class Renamed(DifferentiableAttribution):
        def scores(self, network, texts, classes, *, create_graph=False, more=1):
            return None

        def passes(self, *counts):
            return None

    require_fit(Renamed)


def test_an_attribute_may_replace_a_property():
    require_fit(type("Unsigned", (Gradient,), {"has_sign": False}))


def test_every_check_is_offered_by_the_package():
    checks = {check for check, *_ in OF_OBJECTS + OF_CLASSES}
    assert checks == {value for name in lx.__all__ if name.startswith("check_") for value in [getattr(lx, name)]}
    assert all(inspect.isfunction(check) for check in checks)
