"""Laws of all attribution methods; every class of the package is found, so a new one is tested as well."""

import functools
import importlib
import inspect
import pkgutil
import typing
import warnings
from typing import Any

import pytest
import torch

import lightning_xai.attributions
from lightning_xai.attributions import laws
from lightning_xai.attributions.base import AttributionMethod, DifferentiableAttribution
from lightning_xai.attributions.by_segment import BySegment
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.tiny_networks import tiny_networks
from lightning_xai.functional.network.untouched import network_kept
from lightning_xai.models.forward_pass import ForwardPass
from tests.conftest import text_inputs

SMALL = {"num_steps": 6, "num_samples": 12, "beam_size": 1}  # values for costly arguments of constructors


def find_classes() -> list[type[AttributionMethod]]:
    classes = []
    for module in pkgutil.walk_packages(lightning_xai.attributions.__path__, "lightning_xai.attributions."):
        for value in vars(importlib.import_module(module.name)).values():
            is_method = inspect.isclass(value) and issubclass(value, AttributionMethod)
            if is_method and not inspect.isabstract(value) and value.__module__ == module.name:
                classes.append(value)
    return sorted(classes, key=lambda cls: cls.__name__)


def argument(hint: Any) -> Any:
    """Returns a value of the type `hint`, or None if the type does not suggest one."""
    if hint is AttributionMethod:
        return Gradient()
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)[0]
    if typing.get_origin(hint) is list:
        value = argument(typing.get_args(hint)[0])
        return None if value is None else [value]
    return None


def build(cls: type, **arguments: Any) -> AttributionMethod:
    hints = typing.get_type_hints(inspect.getattr_static(cls, "__init__"))
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in SMALL:
            arguments.setdefault(name, SMALL[name])
        elif parameter.default is parameter.empty and name not in arguments:
            arguments[name] = argument(hints[name])
            if arguments[name] is None:
                pytest.skip(f"{cls.__name__} needs {name}, which its own test provides")
    return cls(**arguments)


def build_differentiable(cls: type, **arguments: Any) -> DifferentiableAttribution:
    method = build(cls, **arguments)
    assert isinstance(method, DifferentiableAttribution)
    return method


BUILT = functools.cache(build)
CLASSES = find_classes()
DIFFERENTIABLE = [cls for cls in CLASSES if issubclass(cls, DifferentiableAttribution)]
each_method = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
each_model = pytest.mark.parametrize("kind", ["bert", "plm_ca"])

TARGETS = laws.TARGETS
NETWORKS = functools.cache(tiny_networks)


@each_method
def test_an_unknown_word_is_refused_at_construction(cls):
    hints = typing.get_type_hints(cls.__init__)
    for name in [name for name, hint in hints.items() if typing.get_origin(hint) is typing.Literal]:
        with pytest.raises(ValueError, match=f"{name} is 'no such word'"):
            build(cls, **{name: "no such word"})


@pytest.fixture
def model(kind, request):
    if kind == "bert" and request.node.callspec.params.get("cls") is BySegment:
        pytest.skip("BySegment refuses networks that encode a text as a whole")
    network = dict(zip(("bert", "plm_ca"), NETWORKS(), strict=True))[kind]
    with network_kept(network):  # faster than a copy
        yield network


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
@each_method
@each_model  # in this order all laws of one method follow each other, and share the scores that most of them need
def test_law(law, cls, model):
    law(BUILT(cls), model)


@each_model
@each_method
def test_preflight_takes_no_more_passes_and_leaves_the_method_as_it_was(cls, model):
    method = build(cls)
    settings, passes = method.settings(), method.passes(8, 2)
    tried = method.for_preflight()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* violate completeness", UserWarning)
        scores = tried.attribute(model, text_inputs(laws.LENGTHS), TARGETS).scores
    assert scores.shape == (len(TARGETS), 2, max(laws.LENGTHS))
    assert all(few <= many for few, many in zip(tried.passes(8, 2), passes, strict=True))
    assert (method.settings(), method.passes(8, 2)) == (settings, passes)
    assert getattr(tried, "chunk_size", None) == getattr(method, "chunk_size", None)


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if SMALL.keys() & inspect.signature(cls).parameters.keys()])
def test_preflight_of_a_method_with_many_steps_takes_few(cls):
    if cls.__name__ == "AMLAttribution":
        pytest.skip("its steps are those of a trained scorer")
    arguments = {"pooling": "l2"} if cls.__name__ == "SequentialIntegratedGradients" else {}
    method = cls(**arguments)
    assert sum(method.for_preflight().passes(8, 1)) < sum(method.passes(8, 1)) / 2


@each_model
@each_method
def test_chunk_size_changes_no_score(cls, model):
    if "chunk_size" not in inspect.signature(cls).parameters:
        pytest.skip(f"{cls.__name__} has no chunk_size")
    laws.chunk_size_changes_nothing(build(cls), model, lambda size: build(cls, chunk_size=size))


@each_model
@pytest.mark.parametrize("cls", DIFFERENTIABLE, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("law", laws.DIFFERENTIABLE_LAWS, ids=lambda law: law.__name__)
def test_law_of_differentiable_methods(law, cls, model):
    law(build_differentiable(cls), model)


@each_model
@pytest.mark.parametrize("cls", DIFFERENTIABLE, ids=lambda cls: cls.__name__)
def test_a_loss_on_the_scores_reaches_every_weight_that_decides_attention(cls, model):
    # a loss on frozen coefficients does not reach queries, by design; with differentiated ones it must
    options = {"coefficients": "differentiable"} if "coefficients" in inspect.signature(cls).parameters else {}
    scores = build_differentiable(cls, **options).scores(model, text_inputs(laws.LENGTHS), TARGETS, create_graph=True)
    scores.square().sum().backward()
    layer = model.encoder_layers()[0]
    parts = {id(part) for part in (layer.value, layer.output, layer.up, layer.down)}
    deciding = [part for part in layer.module.modules() if isinstance(part, torch.nn.Linear) and id(part) not in parts]
    assert len(deciding) == 2  # queries and keys, which have no role in the sum that mixes values
    for part in deciding:
        gradient = part.weight.grad
        assert gradient is not None and gradient.isfinite().all() and gradient.abs().max() > 0


@each_model
@pytest.mark.parametrize("cls", DIFFERENTIABLE, ids=lambda cls: cls.__name__)
def test_a_pass_that_was_made_already_gives_the_same_scores_to_each_of_its_readers(cls, model):
    method = build_differentiable(cls)
    done = ForwardPass(model, text_inputs(laws.LENGTHS), method.needs(model), create_graph=False)
    expected = method.scores(model, text_inputs(laws.LENGTHS), TARGETS)
    for _ in range(2):  # the first reader leaves the graph to the second
        assert torch.equal(method.from_pass(done, TARGETS, create_graph=False), expected)


def test_a_class_that_the_model_does_not_have_is_refused(tiny_hf):
    with pytest.raises(ValueError, match="the model has 3 classes"):
        Gradient().attribute(tiny_hf, text_inputs(laws.LENGTHS), TARGETS + 1)


def test_scores_that_are_not_finite_name_their_examples(tiny_hf):
    class Broken(Gradient):
        def scores(self, model, inputs, targets, *, create_graph=False):
            scores = super().scores(model, inputs, targets)
            scores[1] = float("nan")
            return scores

    with pytest.raises(ValueError, match=r"Broken gave non-finite scores for the examples with indices \[1\]"):
        Broken().attribute(tiny_hf, text_inputs(laws.LENGTHS), TARGETS)


@each_model
@each_method
def test_scores_are_negative_only_if_the_method_has_a_sign(cls, model):
    hints = typing.get_type_hints(cls.__init__)
    options = {name: typing.get_args(hints[name]) for name in ("pooling", "sign", "distribution") if name in hints}
    for name, words in options.items() or {"": ("",)}.items():
        for word in words:
            method = build(cls, **({name: word} if name else {}))
            scores = method.attribute(model, text_inputs(laws.LENGTHS), TARGETS).scores
            assert bool((scores < 0).any()) == method.has_sign, f"{name}={word}"
