"""Layers and heads that are recomputed from the roles of their parts equal the networks' own values."""

from dataclasses import replace

import pytest
import torch

from lightning_xai.functional.decomposition.encoder_layer import check_head, from_segments, head_logits, trace_layers
from lightning_xai.models.plm_ca import PLMCA
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

DECOMPOSABLE = ["bert", "roberta", "distilbert", "electra", "big_bird", "deberta-v2", "plm_ca"]
each_model = pytest.mark.parametrize("kind", DECOMPOSABLE)


def forward(model, inputs):
    model.set_attention("eager")
    return model(inputs, output_attentions=True, output_hidden_states=True)


@each_model
def test_the_trace_of_each_layer_ends_in_the_next_hidden_state(kind):
    model, inputs = tiny_classifier(kind).double(), text_inputs([6, 13, 9])
    output = forward(model, inputs)
    for number, trace in enumerate(trace_layers(model.encoder_layers(), output, inputs.attention_mask)):
        actual = from_segments(trace.output, *inputs.input_ids.shape)[inputs.attention_mask]
        expected = output.hidden_states[number + 1][inputs.attention_mask]
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
    assert number == 1


@each_model
def test_the_head_turns_the_states_that_it_reads_into_logits(kind):
    model, inputs = tiny_classifier(kind).double(), text_inputs([6, 13, 9])
    output = forward(model, inputs)
    read = output.readout.double() @ output.hidden_states[-1]
    check_head(model.head_layers(), read, output.logits)
    torch.testing.assert_close(head_logits(model.head_layers(), read), output.logits, rtol=1e-6, atol=1e-6)


def test_layers_of_another_form_are_refused_when_traced(tiny_hf):
    inputs = text_inputs([6, 13])
    layers = [replace(layer, norm_first=True) for layer in tiny_hf.encoder_layers()]
    with pytest.raises(ValueError, match="layer 0, recomputed from its parts, differs .* cannot be decomposed"):
        list(trace_layers(layers, forward(tiny_hf, inputs), inputs.attention_mask))


def test_an_architecture_without_known_roles_is_refused_by_name():
    with pytest.raises(ValueError, match="the structure of modernbert's layers is unknown"):
        tiny_classifier("modernbert").encoder_layers()


def test_a_head_that_reads_padding_is_refused():
    model = PLMCA(config=TINY_CONFIGS["bert"], num_classes=3, segment_length=8, mask_mode="legacy")
    with pytest.raises(ValueError, match="mask_mode is 'legacy'"):
        model.head_layers()
