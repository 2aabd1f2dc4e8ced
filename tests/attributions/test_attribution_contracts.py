"""Contracts of all attribution methods; every class of the package is found, so a new one is tested as well."""

import importlib
import inspect
import pkgutil
import typing
from typing import Any

import pytest
import torch

import lightning_xai.attributions
from lightning_xai.attributions.base import AttributionMethod, DifferentiableAttribution, explaining
from lightning_xai.attributions.gradient import Gradient
from tests.conftest import text_inputs, tiny_classifier

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


CLASSES = find_classes()
DIFFERENTIABLE = [cls for cls in CLASSES if issubclass(cls, DifferentiableAttribution)]
each_method = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
each_model = pytest.mark.parametrize("kind", ["bert", "plm_ca"])

TARGETS = torch.tensor([[0, 2], [1, 0], [2, 1]])


@each_method
def test_an_unknown_word_is_refused_at_construction(cls):
    hints = typing.get_type_hints(cls.__init__)
    for name in [name for name, hint in hints.items() if typing.get_origin(hint) is typing.Literal]:
        with pytest.raises(ValueError, match=f"{name} is 'no such word'"):
            build(cls, **{name: "no such word"})


@pytest.fixture
def model(kind):
    network = tiny_classifier(kind)
    network.set_attention("eager")
    network(inputs(), output_attentions=True)  # at the first call transformers installs hooks that stay
    return network


def inputs():
    return text_inputs([6, 13, 9])


def assert_same(actual, expected, tolerance=1e-4):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))


def state(model):
    hooks = sum(
        len(getattr(module, name))
        for module in model.modules()
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    )
    return {
        "parameters": [parameter.detach().clone() for parameter in model.parameters()],
        "gradients": [parameter.grad for parameter in model.parameters()],
        "trainable": [parameter.requires_grad for parameter in model.parameters()],
        "modes": [module.training for module in model.modules()],
        "hooks": hooks,
        "random": torch.get_rng_state(),
        "attention": model.attention_implementation,
    }


def assert_same_state(actual, expected):
    assert all(torch.equal(a, b) for a, b in zip(actual.pop("parameters"), expected.pop("parameters"), strict=True))
    assert torch.equal(actual.pop("random"), expected.pop("random"))
    assert actual == expected


@each_model
@each_method
def test_an_example_has_the_same_scores_alone_and_in_a_batch(cls, model):
    method = build(cls)
    together = method.attribute(model, inputs(), TARGETS).scores
    for row in range(3):
        alone = method.attribute(model, inputs()[row : row + 1].trim(), TARGETS[row : row + 1]).scores
        assert_same(together[row : row + 1, :, : alone.shape[-1]], alone)


@each_method
def test_the_method_for_a_split_is_itself_unless_it_stores_scores(cls):
    method = build(cls)
    assert method.for_split("test") is method


@each_model
@each_method
def test_padding_changes_no_score_and_scores_zero(cls, model):
    method = build(cls)
    padded = method.attribute(model, text_inputs([6, 13, 9], pad_to=21), TARGETS).scores
    assert_same(padded[..., :13], method.attribute(model, inputs(), TARGETS).scores)
    assert not padded[..., 13:].any() and not padded[0, :, 6:].any()


@each_model
@each_method
def test_a_class_has_the_same_scores_alone_and_with_others(cls, model):
    method = build(cls)
    together = method.attribute(model, inputs(), TARGETS).scores
    alone = [method.attribute(model, inputs(), TARGETS[:, k : k + 1]).scores for k in range(2)]
    assert_same(together, torch.cat(alone, dim=1))


@each_model
@each_method
def test_rows_outside_the_target_mask_are_zero_and_change_no_other(cls, model):
    method = build(cls)
    mask = torch.tensor([[True, False], [False, True], [False, False]])
    scores = method.attribute(model, inputs(), TARGETS.masked_fill(~mask, -1), mask).scores
    assert_same(scores, method.attribute(model, inputs(), TARGETS).scores * mask.unsqueeze(-1))


@each_model
@each_method
def test_chunk_size_changes_no_score(cls, model):
    if "chunk_size" not in inspect.signature(cls).parameters:
        pytest.skip(f"{cls.__name__} has no chunk_size")
    expected = build(cls).attribute(model, inputs(), TARGETS).scores
    for chunk_size, rows in ((1, 1), (5, 3), (14, 3)):  # one row at a time is slow: only the shortest text
        method = build(cls, chunk_size=chunk_size)
        assert_same(method.attribute(model, inputs()[:rows], TARGETS[:rows]).scores, expected[:rows])


@each_model
@each_method
def test_the_model_is_left_as_it_was(cls, model):
    model.train()
    next(model.modules()).training = False  # modes may differ between modules, and each is restored
    next(model.parameters()).requires_grad_(False)
    before = state(model)
    build(cls).attribute(model, inputs(), TARGETS)
    assert_same_state(state(model), before)


@each_model
@each_method
def test_the_model_is_left_as_it_was_after_an_exception(cls, model):
    def fail(*_):
        raise RuntimeError("stop")

    model.train()
    before = state(model)
    method = build(cls)
    last = list(model.modules())[-1]
    handle = last.register_forward_hook(fail)
    if method.passes(13, 2).forward:
        with pytest.raises(RuntimeError, match="stop"):
            method.attribute(model, inputs(), TARGETS)
    handle.remove()
    assert_same_state(state(model), before)


@each_model
@each_method
def test_inference_mode_and_autocast_change_no_score(cls, model):
    method = build(cls)
    expected = method.attribute(model, inputs(), TARGETS).scores
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        actual = method.attribute(model, inputs(), TARGETS.clone()).scores
    assert_same(actual.clone(), expected)
    assert actual.dtype == torch.float32 and not actual.requires_grad


@each_model
@pytest.mark.parametrize("cls", DIFFERENTIABLE, ids=lambda cls: cls.__name__)
def test_a_loss_on_the_scores_reaches_the_encoder(cls, model):
    # a loss on frozen coefficients does not reach queries, by design; with differentiated ones it must
    options = {"coefficients": "differentiable"} if "coefficients" in inspect.signature(cls).parameters else {}
    scores = build_differentiable(cls, **options).scores(model, inputs(), TARGETS, create_graph=True)
    scores.square().sum().backward()
    weights = {name: p.grad for name, p in model.named_parameters() if "layer.0." in name and "weight" in name}
    queries = next(gradient for name, gradient in weights.items() if "query" in name)
    assert queries.isfinite().all() and queries.abs().max() > 0


@each_model
@pytest.mark.parametrize("cls", DIFFERENTIABLE, ids=lambda cls: cls.__name__)
def test_the_graph_changes_no_score(cls, model):
    method = build_differentiable(cls)
    with explaining(model, "cpu"):
        plain = method.scores(model, inputs(), TARGETS)
    assert_same(method.scores(model, inputs(), TARGETS, create_graph=True).detach(), plain.detach())


@each_model
@pytest.mark.parametrize("cls", DIFFERENTIABLE, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("create_graph", [False, True], ids=["no graph", "graph"])
def test_scores_under_autocast_are_those_in_float32_roughly(cls, model, create_graph):
    method = build_differentiable(cls)
    exact = method.scores(model, inputs(), TARGETS).detach()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = method.scores(model, inputs(), TARGETS, create_graph=create_graph).detach()
    inside = inputs().attention_mask.unsqueeze(1)  # attribute() zeroes the scores of padding
    assert ((mixed - exact) * inside).abs().max() < 0.1 * (exact * inside).abs().max()


@each_model
@each_method
def test_passes_counts_the_passes_that_are_made(cls, model):
    made = {"forward": 0, "backward": 0}

    def count(module, arguments, output):
        # DeepLift runs the baseline together with the input, and its logits hold both
        baseline_logits = getattr(output.logits, "second_run", None)
        made["forward"] += len(output.logits) + (0 if baseline_logits is None else len(baseline_logits))
        if output.logits.requires_grad:
            output.logits.register_hook(count_backward)

    def count_backward(gradient):
        made["backward"] += len(gradient)

    model.register_forward_hook(count)
    method = build(cls)
    method.attribute(model, text_inputs([9, 9, 9]), TARGETS)
    stated = method.passes(7, 2)  # of nine tokens two are special
    assert made["forward"] == pytest.approx(3 * stated.forward) or (
        method.passes_at_most and 0 < made["forward"] < 3 * stated.forward
    )
    # one backward pass through a cross-attention can serve all classes, but `passes` does not know the model
    shared = model.readout_is_attention or method.passes_at_most
    assert made["backward"] == pytest.approx(3 * stated.backward) or (
        shared and 0 < made["backward"] < 3 * stated.backward
    )


def test_a_class_that_the_model_does_not_have_is_refused(tiny_hf):
    with pytest.raises(ValueError, match="the model has 3 classes"):
        Gradient().attribute(tiny_hf, inputs(), TARGETS + 1)


def test_scores_that_are_not_finite_name_their_examples(tiny_hf):
    class Broken(Gradient):
        def scores(self, model, inputs, targets, *, create_graph=False):
            scores = super().scores(model, inputs, targets)
            scores[1] = float("nan")
            return scores

    with pytest.raises(ValueError, match=r"Broken gave non-finite scores for examples \[1\]"):
        Broken().attribute(tiny_hf, inputs(), TARGETS)


@each_model
@each_method
def test_scores_are_negative_only_if_the_method_has_a_sign(cls, model):
    hints = typing.get_type_hints(cls.__init__)
    options = {name: typing.get_args(hints[name]) for name in ("pooling", "sign", "distribution") if name in hints}
    for name, words in options.items() or {"": ("",)}.items():
        for word in words:
            method = build(cls, **({name: word} if name else {}))
            scores = method.attribute(model, inputs(), TARGETS).scores
            assert bool((scores < 0).any()) == method.has_sign, f"{name}={word}"
