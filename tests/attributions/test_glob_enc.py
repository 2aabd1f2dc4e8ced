"""GlobEnc against the authors' numbers and against its definition."""

import copy

import pytest
import torch
from torch.nn import functional as F

from lightning_xai.attributions.glob_enc import GlobEnc, encoder_norms
from lightning_xai.functional.decomposition.encoder_layer import trace_layers
from tests.attributions.conftest import GOLDEN_MODELS
from tests.conftest import text_inputs, tiny_classifier


def linearized(norm, pairs, state):
    """Returns pair vectors [S, S, D] after `norm`, with its deviation fixed at that of `state` [S, D]."""
    deviation = (state.var(dim=-1, correction=0) + norm.eps).sqrt().view(-1, 1, 1)
    return norm.weight * (pairs - pairs.mean(dim=-1, keepdim=True)) / deviation


@torch.no_grad()
def brute_force(model, inputs):
    """Returns the product of all layers' norms [S, S] of one unpadded text."""
    output = model(inputs, output_attentions=True, output_hidden_states=True)
    product = torch.eye(inputs.input_ids.shape[1], dtype=torch.float64)
    for layer, hidden, attention in zip(
        model.transformer.base_model.encoder.layer, output.hidden_states, output.attentions, strict=False
    ):
        hidden, attention = hidden[0], attention[0]
        num_heads, size = attention.shape[:2]
        dense, norm = layer.attention.output.dense, layer.attention.output.LayerNorm
        values = layer.attention.self.value(hidden).view(size, num_heads, -1)
        pairs = F.linear(torch.einsum("hij,jhd->ijhd", attention, values).flatten(2), dense.weight)
        pairs[range(size), range(size)] += hidden
        total = pairs.sum(dim=1) + dense.bias
        block = norm(total)
        before = block + layer.output.dense(layer.intermediate(block))
        pairs = linearized(layer.output.LayerNorm, linearized(norm, pairs, total), before)
        product = pairs.norm(dim=-1) @ product
    return product


@pytest.mark.parametrize("name", GOLDEN_MODELS)
def test_scores_are_those_of_the_authors_code(golden, name):  # golden/globenc.json
    case = golden("globenc", name)
    scores = GlobEnc().scores(case.model, case.inputs, case.targets)
    for row, expected in zip(scores, case.rows("cls_row"), strict=True):
        torch.testing.assert_close(row[:, : len(expected)], expected.expand(len(row), -1), rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", GOLDEN_MODELS[:2])
def test_norms_of_each_layer_are_those_of_the_authors_code(golden, name):  # golden/globenc.json
    case = golden("globenc", name)
    output = case.model(case.inputs, output_attentions=True, output_hidden_states=True)
    layers = case.model.encoder_layers()
    for place, trace in enumerate(trace_layers(layers, output, case.inputs.attention_mask)):
        norms = encoder_norms(layers[place], trace).detach()
        for matrix, record in zip(norms, case.outputs, strict=True):
            expected = torch.tensor(record["outputs"]["n_enc"][place], dtype=torch.float64)
            torch.testing.assert_close(matrix[: len(expected), : len(expected)], expected, rtol=1e-10, atol=0)


@pytest.mark.slow
def test_float32_scores_are_near_those_in_float64(golden):  # norms from inner products lose few digits
    case = golden("globenc", "minilm")
    case.model = copy.deepcopy(case.model).float()
    scores = GlobEnc().scores(case.model, case.inputs, case.targets)
    for row, expected in zip(scores, case.rows("cls_row"), strict=True):
        torch.testing.assert_close(row[0, : len(expected)].double(), expected, rtol=1e-4, atol=0)


def test_scores_are_those_of_the_definition(tiny_hf):
    tiny_hf.double().set_attention("eager")
    inputs = text_inputs([11])
    actual = GlobEnc().scores(tiny_hf, inputs, torch.tensor([[1]]))[0, 0]
    torch.testing.assert_close(actual, brute_force(tiny_hf, inputs)[0])


def test_each_class_follows_its_own_attention(tiny_plm_ca):
    tiny_plm_ca.double().set_attention("eager")
    scores = GlobEnc().scores(tiny_plm_ca, text_inputs([21]), torch.tensor([[3, 1]]))
    assert not torch.allclose(scores[0, 0], scores[0, 1])


def test_a_network_in_bfloat16_has_about_the_scores_of_double_precision(tiny_plm_ca):
    inputs, targets = text_inputs([21]), torch.tensor([[3, 1]])
    tiny_plm_ca.double().set_attention("eager")
    expected = GlobEnc().attribute(tiny_plm_ca, inputs, targets).scores
    actual = GlobEnc().attribute(tiny_plm_ca.bfloat16(), inputs, targets).scores
    torch.testing.assert_close(actual, expected, rtol=0, atol=0.05 * float(expected.max()))


def test_a_decoder_is_refused():
    with pytest.raises(ValueError, match="normalizes before attention.* choose ALTI"):
        GlobEnc().scores(tiny_classifier("llama"), text_inputs([5]), torch.tensor([[0]]))
