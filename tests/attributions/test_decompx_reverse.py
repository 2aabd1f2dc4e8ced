from typing import Any, cast

import pytest
import torch

from lightning_xai.attributions.base import explaining
from lightning_xai.attributions.decompx import DecompX
from lightning_xai.attributions.decompx_reverse import DecompXReverse
from lightning_xai.functional.network import chunking
from tests.attributions.conftest import GOLDEN_MODELS
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

TARGETS = torch.tensor([[0, 2], [1, 0], [2, 1]])
KINDS = ["bert", "roberta", "distilbert", "electra", "big_bird", "deberta-v2", "plm_ca"]


@pytest.fixture
def inputs():
    return text_inputs([6, 13, 9])


def logits(model, inputs):
    with torch.no_grad():
        return model(inputs).logits.gather(1, TARGETS)


@pytest.mark.parametrize("name", GOLDEN_MODELS)
def test_scores_are_those_of_the_authors_code_without_biases(golden, name):  # golden/decompx.json, no_biases
    case = golden("decompx", name)
    scores = DecompXReverse().scores(case.model, case.inputs, case.targets)
    for row, record in zip(scores, case.outputs, strict=True):
        expected = torch.tensor(record["outputs"]["no_biases"]["classifier"], dtype=torch.float64).T
        torch.testing.assert_close(row[:, : expected.shape[1]], expected, rtol=0, atol=2e-9)


@pytest.mark.parametrize("kind", [*KINDS, "llama"])
def test_scores_are_those_of_decompx(kind, inputs):
    model = tiny_classifier(kind).double()
    model.set_attention("eager")
    expected = DecompX(bias="none").attribute(model, inputs, TARGETS).scores
    torch.testing.assert_close(DecompXReverse().attribute(model, inputs, TARGETS).scores, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("value_bias", [True, False])
def test_scores_and_bias_scores_sum_to_the_logit(kind, kernel, value_bias, inputs):
    model = tiny_classifier(kind).double()
    model.set_attention(kernel)
    method = DecompXReverse(value_bias)
    total = method.scores(model, inputs, TARGETS).sum(-1) + method.bias_scores(model, inputs, TARGETS)
    torch.testing.assert_close(total.detach(), logits(model, inputs), rtol=0, atol=1e-10)


def test_scores_of_a_decoder_sum_to_the_logit(inputs):  # without biases; the RMSNorm of transformers rounds to float32
    model = tiny_classifier("llama").double()
    total = DecompXReverse().scores(model, inputs, TARGETS).sum(-1)
    torch.testing.assert_close(total.detach(), logits(model, inputs), rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu_new", "gelu_fast", "gelu_python", "quick_gelu", "silu", "relu", "mish"])
def test_every_form_of_an_activation_has_a_linear_rule(activation, inputs):
    model = tiny_classifier("bert", config=TINY_CONFIGS["bert"] | {"hidden_act": activation}).double()
    method = DecompXReverse()
    total = method.scores(model, inputs, TARGETS).sum(-1) + method.bias_scores(model, inputs, TARGETS)
    torch.testing.assert_close(total.detach(), logits(model, inputs), rtol=0, atol=1e-10)


def test_an_activation_without_a_linear_rule_is_named(inputs):
    model = tiny_classifier("bert", config=TINY_CONFIGS["bert"] | {"hidden_act": "sigmoid"})
    with pytest.raises(ValueError, match="sigmoid has no linear rule"):
        DecompXReverse().attribute(model, inputs, TARGETS)


@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
def test_both_kinds_of_coefficients_give_the_same_scores(kind, inputs):
    model = tiny_classifier(kind).double()
    expected = DecompXReverse().scores(model, inputs, TARGETS)
    actual = DecompXReverse(coefficients="differentiable").scores(model, inputs, TARGETS, create_graph=True)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def central_difference(model, inputs, parameter, direction, coefficients):
    """Returns the derivative of the sum of squared scores along `direction` of `parameter`."""
    delta, losses = 1e-5, []
    for sign in (1, -1):
        with torch.no_grad():
            parameter.add_(sign * delta * direction)
        scores = DecompXReverse(coefficients=coefficients).scores(model, inputs, TARGETS, create_graph=True)
        losses.append(float(scores.square().sum().detach()))
        with torch.no_grad():
            parameter.sub_(sign * delta * direction)
    return (losses[0] - losses[1]) / (2 * delta)


@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
@pytest.mark.parametrize("weight", ["layer.0.attention.self.query.weight", "layer.0.intermediate.dense.weight"])
def test_differentiable_coefficients_give_the_full_derivative(kind, weight, inputs):
    model = tiny_classifier(kind).double()
    parameter = next(p for name, p in model.named_parameters() if name.endswith(weight))
    direction = torch.randn_like(parameter)
    expected = central_difference(model, inputs, parameter, direction, "differentiable")
    scores = DecompXReverse(coefficients="differentiable").scores(model, inputs, TARGETS, create_graph=True)
    gradient = torch.autograd.grad(scores.square().sum(), parameter)[0]
    assert float((gradient * direction).sum()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", [*KINDS, "llama"])
def test_both_attention_kernels_give_a_loss_the_same_gradients(kind, inputs):
    gradients = []
    for kernel in ("eager", "sdpa"):
        model = tiny_classifier(kind).double()
        model.set_attention(kernel)
        scores = DecompXReverse().scores(model, inputs, TARGETS, create_graph=True)
        first, second = model.encoder_layers()
        weights = [first.value.weight, first.down.weight, second.value.weight]
        gradients.append(torch.autograd.grad(scores.square().sum(), weights))
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-5 if kind == "llama" else 1e-12)


def test_classes_of_long_texts_take_several_backward_passes(inputs, monkeypatch):
    model, targets = tiny_classifier("bert").double(), torch.tensor([[0, 1, 2]] * 3)
    expected = DecompXReverse().scores(model, inputs, targets)
    for tokens in (1, 2 * inputs.input_ids.numel()):  # one class at a time, then two
        monkeypatch.setitem(chunking._EVALUATED, "cpu", tokens)
        torch.testing.assert_close(DecompXReverse().scores(model, inputs, targets), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("role", ["value", "intermediate.dense"])
def test_detached_coefficients_let_a_loss_reach_values_and_feed_forward_weights(tiny_hf, inputs, role):
    DecompXReverse().scores(tiny_hf, inputs, TARGETS, create_graph=True).square().sum().backward()
    weights = {name: parameter.grad for name, parameter in tiny_hf.named_parameters()}
    gradient = next(g for name, g in weights.items() if "layer.0." in name and name.endswith(f"{role}.weight"))
    assert gradient.isfinite().all() and gradient.abs().max() > 0


def test_detached_coefficients_keep_a_loss_from_queries(tiny_hf, inputs):
    DecompXReverse().scores(tiny_hf, inputs, TARGETS, create_graph=True).square().sum().backward()
    assert [p.grad for name, p in tiny_hf.named_parameters() if "self.query" in name] == [None] * 4


@pytest.mark.parametrize("coefficients", ["detached", "differentiable"])
def test_dropout_leaves_scores_finite_in_training(coefficients, inputs):
    model = tiny_classifier("bert", dropout=0.3).train()
    scores = DecompXReverse(coefficients=coefficients).scores(model, inputs, TARGETS, create_graph=True)
    assert scores.isfinite().all()


@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
def test_padding_may_lie_anywhere(kind, inputs):
    model = tiny_classifier(kind).double()
    order = torch.tensor([[6, 7, 0, 8, 9, 1, 2, 10, 3, 11, 12, 4, 5], [*range(13)], [12, *range(12)]])
    permuted = inputs.map(lambda tensor: tensor.gather(1, order) if tensor.dim() > 1 else tensor)
    with explaining(model, "cpu"):
        expected = DecompXReverse().attribute(model, inputs, TARGETS).scores
        actual = DecompXReverse().attribute(model, permuted, TARGETS).scores
    torch.testing.assert_close(actual, expected.gather(2, order.unsqueeze(1).expand(-1, 2, -1)))


def test_scores_do_not_depend_on_the_choice_of_the_embedding(inputs):
    scores = [
        DecompXReverse().attribute(tiny_classifier("bert", embedding=embedding), inputs, TARGETS).scores
        for embedding in ("word", "module")
    ]
    torch.testing.assert_close(*scores)


def test_unknown_coefficients_are_refused():
    with pytest.raises(ValueError, match="coefficients is 'frozen'"):
        DecompXReverse(coefficients=cast(Any, "frozen"))
