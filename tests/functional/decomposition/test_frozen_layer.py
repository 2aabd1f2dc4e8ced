from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lightning_xai.functional.decomposition.bias_shares import BiasShares
from lightning_xai.functional.decomposition.encoder_layer import trace_layers
from lightning_xai.functional.decomposition.frozen_layer import FrozenLayer, freeze_layer
from tests.conftest import text_inputs, tiny_classifier
from tests.functional.decomposition.conftest import Stack, random_layer, random_trace

ALL = torch.arange(6)


def state_with_biases(layer: FrozenLayer, attended: Tensor) -> Tensor:
    """Returns the layer's output [R, D] for all sources together, which get every bias in full."""

    def add_bias(place: str, vectors: Tensor) -> Tensor:
        bias = layer.biases.get(place)
        return vectors if bias is None else vectors + bias.expand(len(vectors), -1).unsqueeze(1)

    return layer.after_attention(attended.sum(dim=1, keepdim=True), add_bias).squeeze(1)


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_a_frozen_layer_gives_the_networks_next_hidden_state(kind: str) -> None:
    model, inputs = tiny_classifier(kind).double(), text_inputs([7])
    model.set_attention("eager")
    output = model(inputs, output_attentions=True, output_hidden_states=True)
    layers = model.encoder_layers()
    trace = next(trace_layers(layers, output, inputs.attention_mask))
    frozen = freeze_layer(layers[0], trace, torch.arange(7), is_first=True, feed_forward="zero_origin")
    attended, _ = frozen.attend_to_tokens(slice(0, 7))
    tolerance = 1e-6 if kind == "llama" else 1e-12  # Llama's RMSNorm computes in float32
    torch.testing.assert_close(
        state_with_biases(frozen, attended), output.hidden_states[1][0], rtol=tolerance, atol=tolerance
    )


def test_a_later_layer_mixes_the_vectors_of_its_sources_into_the_true_state(stack: Stack) -> None:
    layers, traces = stack
    frozen = freeze_layer(layers[1], traces[1], ALL, is_first=False, feed_forward="zero_origin")
    shares = torch.rand(3, dtype=torch.float64)
    vectors = traces[1].hidden[0].unsqueeze(1) * (shares / shares.sum()).unsqueeze(1)  # three sources sum to the state
    attended, _ = frozen.attend(vectors)
    torch.testing.assert_close(state_with_biases(frozen, attended), traces[1].output[0])


def test_a_frozen_layer_is_linear_in_its_vectors(stack: Stack) -> None:
    layers, traces = stack
    frozen = freeze_layer(layers[1], traces[1], ALL, is_first=False, feed_forward="zero_origin")

    def layer(vectors: Tensor) -> Tensor:
        return frozen.after_attention(frozen.attend(vectors)[0], lambda _, vectors: vectors)

    x, y = torch.randn(2, 6, 3, 8, dtype=torch.float64)
    torch.testing.assert_close(layer(x + 3 * y), layer(x) + 3 * layer(y))


def test_a_source_of_the_first_layer_is_its_token_with_zeros_elsewhere(stack: Stack) -> None:
    layers, traces = stack
    frozen = freeze_layer(layers[0], traces[0], ALL, is_first=True, feed_forward="zero_origin")
    frozen = replace(frozen, values=_values_without_bias(frozen))
    alone = torch.diag_embed(traces[0].hidden[0].T).permute(1, 2, 0)  # [T, S, D], the token at its own place only
    torch.testing.assert_close(frozen.attend_to_tokens(slice(0, 6))[0], frozen.attend(alone)[0])


def _values_without_bias(layer: FrozenLayer) -> Tensor:
    """Returns the values [H, T, head size] of the layer's frozen input."""
    inputs = layer.hidden.unsqueeze(1)
    if layer.parts.norm_first:
        inputs = layer.attention_norm(inputs)
    values = torch.nn.functional.linear(inputs.squeeze(1), layer.parts.value.weight)
    heads = values.unflatten(-1, (-1, layer.parts.head_size)).transpose(0, 1)
    return heads.repeat_interleave(layer.parts.num_heads // len(heads), dim=0)


def test_units_that_are_known_are_those_that_the_layer_computes(stack: Stack) -> None:
    layers, traces = stack
    frozen = freeze_layer(layers[0], traces[0], ALL, is_first=True, feed_forward="zero_origin")
    vectors, units = frozen.attend_to_tokens(slice(0, 6))

    def no_bias(_: str, vectors: Tensor) -> Tensor:
        return vectors

    torch.testing.assert_close(
        frozen.after_attention(vectors, no_bias, units), frozen.after_attention(vectors, no_bias)
    )


def test_mixtures_of_targets_are_mixed_outputs() -> None:
    layer = random_layer(norm_first=False)
    frozen = freeze_layer(layer, random_trace(layer), ALL, is_first=True, feed_forward="zero_origin")
    vectors, weights = torch.randn(6, 3, 8, dtype=torch.float64), torch.randn(2, 6, dtype=torch.float64)
    mixtures = frozen.mixtures_after_attention(vectors, BiasShares("none", frozen.biases), None, weights)
    every = frozen.after_attention(vectors, lambda _, vectors: vectors)
    torch.testing.assert_close(mixtures, torch.einsum("wr,rcd->wcd", weights, every))


def test_a_layer_without_its_feed_forward_block_has_no_slope() -> None:
    layer = random_layer(norm_first=False)
    frozen = freeze_layer(layer, random_trace(layer), ALL, is_first=True, feed_forward="none")
    assert frozen.slope is None and not {"up", "activation", "down"} & set(frozen.biases)


def test_a_gate_is_refused_another_approximation_than_the_line_through_the_origin() -> None:
    layer = random_layer(norm_first=True)
    with pytest.raises(ValueError, match="a feed-forward block with a gate cannot be made linear with 'relu'"):
        freeze_layer(layer, random_trace(layer), ALL, is_first=True, feed_forward="relu")


def test_a_biased_norm_before_attention_is_refused() -> None:
    layer = replace(random_layer(norm_first=False), norm_first=True)
    with pytest.raises(ValueError, match="norm before attention has a bias"):
        freeze_layer(layer, random_trace(layer), ALL, is_first=True, feed_forward="zero_origin")
