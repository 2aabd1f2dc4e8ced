"""ALTI against the authors' numbers, against its definition, and its laws."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.attributions.alti import ALTI, alti_mixing
from lightning_xai.functional.decomposition.encoder_layer import trace_layers
from lightning_xai.types import TextInputs
from tests.attributions.conftest import GOLDEN_MODELS
from tests.conftest import text_inputs, tiny_classifier


def post_norm_pairs(layer: Any, hidden: Tensor, attention: Tensor) -> tuple[Tensor, Tensor]:
    """Returns all pair vectors [S, S, D] of a BERT layer and the outputs [S, D] of its attention block."""
    part, norm = layer.attention.output, layer.attention.output.LayerNorm
    num_heads, size = attention.shape[:2]
    values = layer.attention.self.value(hidden).view(size, num_heads, -1)
    mixed = torch.einsum("hij,jhd->ijhd", attention, values).flatten(2)
    pairs = F.linear(mixed, part.dense.weight)
    pairs[range(size), range(size)] += hidden
    total = pairs.sum(dim=1) + part.dense.bias
    deviation = (total.var(dim=-1, correction=0) + norm.eps).sqrt().view(-1, 1, 1)
    pairs = norm.weight * (pairs - pairs.mean(dim=-1, keepdim=True)) / deviation
    return pairs, norm(total)


def contributions(pairs: Tensor, resultants: Tensor, order: int = 1, shift: float = 0.0) -> Tensor:
    """Returns the contributions [S target, S source] of pair vectors [S, S, D] to block outputs [S, D]."""
    differences = resultants.unsqueeze(1) - pairs + shift
    nearer = resultants.norm(p=order, dim=-1, keepdim=True) - differences.norm(p=order, dim=-1)
    return F.normalize(nearer.clamp(min=0), p=1, dim=-1)


@torch.no_grad()
def brute_force(model: Any, inputs: TextInputs, order: int = 1, shift: float = 0.0) -> Tensor:
    """Returns the product of all layers' contributions [S, S] of one unpadded text."""
    output = model(inputs, output_attentions=True, output_hidden_states=True)
    product: Tensor | None = None
    for layer, hidden, attention in zip(
        model.transformer.base_model.encoder.layer, output.hidden_states, output.attentions, strict=False
    ):
        mixing = contributions(*post_norm_pairs(layer, hidden[0], attention[0]), order, shift)
        product = mixing if product is None else mixing @ product
    assert product is not None
    return product


def cls_rows(case, key):
    return [torch.tensor(record["outputs"][key]["cls_row"], dtype=torch.float64) for record in case.outputs]


@pytest.mark.parametrize("name", GOLDEN_MODELS)
@pytest.mark.parametrize(("norm", "key"), [("l1", "alti"), ("l2", "alti_l2")])
def test_scores_are_those_of_the_authors_code(golden, name, norm, key):  # golden/alti.json
    case = golden("alti", name)
    scores = ALTI(norm).attribute(case.model, case.inputs, case.targets).scores
    for row, outputs in zip(scores, cls_rows(case, key), strict=True):
        # the authors add 1e-6 to each of D coordinates: contributions on MiniLM (D = 384) change by up to 1.6e-5
        torch.testing.assert_close(row[0, : len(outputs)].double(), outputs, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", GOLDEN_MODELS)
def test_scores_differ_from_the_authors_code_only_by_its_shift(golden, name):  # golden/alti.json
    case = golden("alti", name, max_examples=2)
    for row, expected in enumerate(cls_rows(case, "alti")):
        text = case.inputs[row : row + 1].trim()
        shifted = brute_force(case.model, text, shift=-1e-6)[0]
        torch.testing.assert_close(shifted, expected, rtol=0, atol=1e-6 if name == "tiny-roberta" else 1e-9)
        plain = brute_force(case.model, text)[0]
        scores = ALTI().scores(case.model, text, case.targets[row : row + 1])
        torch.testing.assert_close(scores[0, 0], plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", GOLDEN_MODELS[:2])
def test_contributions_of_each_layer_are_those_of_the_authors_code(golden, name):  # golden/alti.json
    case = golden("alti", name)
    output = case.model(case.inputs, output_attentions=True, output_hidden_states=True)
    layers = case.model.encoder_layers()
    for place, trace in enumerate(trace_layers(layers, output, case.inputs.attention_mask)):
        mixing = alti_mixing(layers[place], trace, norm="l1").detach()
        for matrix, record in zip(mixing, case.outputs, strict=True):
            expected = torch.tensor(record["outputs"]["alti"]["layer_contributions"][place], dtype=torch.float64)
            torch.testing.assert_close(matrix[: len(expected), : len(expected)], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("norm", "order"), [("l1", 1), ("l2", 2)])
def test_scores_are_those_of_the_definition(tiny_hf, norm, order):
    tiny_hf.double().set_attention("eager")
    inputs = text_inputs([11])
    actual = ALTI(norm).scores(tiny_hf, inputs, torch.tensor([[1]]))[0, 0]
    torch.testing.assert_close(actual, brute_force(tiny_hf, inputs, order)[0])


def test_segments_are_followed_separately(tiny_plm_ca):
    tiny_plm_ca.double().set_attention("eager")
    inputs, targets = text_inputs([21]), torch.tensor([[3, 1]])  # segments of 8, 8 and 5 tokens
    with torch.no_grad():
        output = tiny_plm_ca(inputs, output_attentions=True, output_hidden_states=True)
        expected = torch.zeros(2, 24, dtype=torch.float64)
        for segment in range(3):
            columns = slice(8 * segment, 8 * segment + 8)
            product = torch.eye(8, dtype=torch.float64)
            for layer, hidden, attention in zip(
                tiny_plm_ca.transformer.encoder.layer, output.hidden_states, output.attentions, strict=False
            ):
                states = F.pad(hidden, (0, 0, 0, 3))[0, columns]
                product = contributions(*post_norm_pairs(layer, states, attention[segment])) @ product
            expected[:, columns] = F.pad(output.readout, (0, 3))[0, [3, 1], columns] @ product
    torch.testing.assert_close(ALTI().scores(tiny_plm_ca, inputs, targets)[0], expected[:, :21])


@torch.no_grad()
def test_scores_of_a_decoder_follow_its_residual_stream():
    model, inputs = tiny_classifier("llama").double(), text_inputs([9])
    model.set_attention("eager")
    output = model(inputs, output_attentions=True, output_hidden_states=True)
    expected = torch.eye(9, dtype=torch.float64)[-1:]  # the head reads the last token
    for layer, hidden, attention in reversed(
        list(zip(model.transformer.base_model.layers, output.hidden_states, output.attentions, strict=False))
    ):
        hidden, attention = hidden[0], attention[0]
        value = layer.self_attn.v_proj(layer.input_layernorm(hidden))  # one head of values for two of queries
        pairs = layer.self_attn.o_proj(torch.einsum("hij,jd->ijhd", attention, value).flatten(2))
        pairs[range(9), range(9)] += hidden
        expected = expected @ contributions(pairs, pairs.sum(dim=1))
    torch.testing.assert_close(ALTI().scores(model, inputs, torch.tensor([[1]]))[0], expected)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("kind", ["roberta", "distilbert", "deberta-v2", "llama", "plm_ca"])
def test_rows_sum_to_one(kind, norm):
    model = tiny_classifier(kind)
    model.set_attention("eager")
    scores = ALTI(norm).attribute(model, text_inputs([13, 20], pad_to=25), torch.tensor([[0], [1]])).scores
    torch.testing.assert_close(scores.sum(-1), torch.ones(2, 1))


def test_scores_are_not_negative(tiny_hf):
    tiny_hf.set_attention("eager")
    assert ALTI().attribute(tiny_hf, text_inputs([13]), torch.tensor([[0]])).scores.min() >= 0


@pytest.mark.parametrize("kind", ["bert", "llama", "plm_ca"])
def test_a_network_in_bfloat16_has_about_the_scores_of_double_precision(kind):
    model, inputs, targets = tiny_classifier(kind).double(), text_inputs([13, 20]), torch.tensor([[0], [1]])
    model.set_attention("eager")
    expected = ALTI().attribute(model, inputs, targets).scores
    actual = ALTI().attribute(model.bfloat16(), inputs, targets).scores
    torch.testing.assert_close(actual, expected, rtol=0, atol=0.03)
