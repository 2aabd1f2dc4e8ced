"""Layers recomputed from their parts against the networks themselves, in float64."""

import pytest
import torch

from lightning_xai.functional.decomposition.encoder_layer import (
    check_head,
    from_segments,
    head_logits,
    split_heads,
    to_segments,
    trace_layer,
    trace_layers,
)
from tests.conftest import text_inputs, tiny_classifier


@pytest.mark.parametrize("kind", ["bert", "distilbert", "deberta-v2", "llama"])
def test_a_traced_layer_gives_the_networks_next_hidden_state(kind: str) -> None:
    model, inputs = tiny_classifier(kind).double(), text_inputs([5, 8])
    model.set_attention("eager")
    output = model(inputs, output_attentions=True, output_hidden_states=True)
    trace = trace_layer(model.encoder_layers()[0], output.hidden_states[0], output.attentions[0])
    mask = inputs.attention_mask
    torch.testing.assert_close(trace.output[mask], output.hidden_states[1][mask])


def test_the_values_of_a_trace_are_those_that_hooks_see() -> None:
    model, inputs, seen = tiny_classifier("bert").double(), text_inputs([6]), {}
    model.set_attention("eager")
    layer = model.encoder_layers()[0]
    for name in ("value", "attention_norm", "up", "feed_forward_norm"):

        def see(_module, arguments, result, name=name):
            seen[name] = arguments[0], result

        getattr(layer, name).register_forward_hook(see)
    output = model(inputs, output_attentions=True, output_hidden_states=True)
    seen_in_the_network = dict(seen)
    trace = trace_layer(layer, output.hidden_states[0], output.attentions[0])
    torch.testing.assert_close(trace.value_input, seen_in_the_network["value"][0])
    torch.testing.assert_close(trace.values, split_heads(seen_in_the_network["value"][1], layer.num_heads))
    torch.testing.assert_close(trace.attention_sum, seen_in_the_network["attention_norm"][0])
    torch.testing.assert_close(trace.attention_block, seen_in_the_network["attention_norm"][1])
    torch.testing.assert_close(trace.preactivation, seen_in_the_network["up"][1])
    torch.testing.assert_close(trace.feed_forward_sum, seen_in_the_network["feed_forward_norm"][0])
    torch.testing.assert_close(trace.output, seen_in_the_network["feed_forward_norm"][1])


def test_layers_that_miss_the_networks_states_are_refused() -> None:
    model, inputs = tiny_classifier("bert"), text_inputs([6])
    model.set_attention("eager")
    output = model(inputs, output_attentions=True, output_hidden_states=True)
    with pytest.raises(ValueError, match="the output of layer 0, recomputed from its parts, differs"):
        list(trace_layers(model.encoder_layers()[::-1], output, inputs.attention_mask))


def test_segments_of_two_texts_are_put_together_again() -> None:
    states = torch.randn(2, 5, 3)
    attention = torch.zeros(2 * 3, 1, 2, 2)  # three segments of two tokens a text
    segments = to_segments(states, attention)
    assert segments.shape == (6, 2, 3) and torch.equal(segments[2, 0], states[0, 4]) and not segments[2, 1].any()
    assert torch.equal(from_segments(segments, 2, 5), states)


def test_logits_are_read_from_one_state_or_from_one_state_for_each_class() -> None:
    assert head_logits([torch.neg], torch.ones(2, 1, 3)).shape == (2, 3)
    assert head_logits([lambda states: states.sum(-1, keepdim=True)], torch.ones(2, 4, 3)).shape == (2, 4)


def test_a_head_that_misses_the_logits_is_refused() -> None:
    message = "the classification head, recomputed from its parts, differs from the network's output by 2"
    with pytest.raises(ValueError, match=message):
        check_head([torch.neg], torch.ones(1, 1, 2), torch.ones(1, 2))
