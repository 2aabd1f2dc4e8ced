"""Attributions at a layer, against a network that ends with this layer."""

import copy
from typing import Any

import pytest
import torch

from lightning_xai.attributions.alti import ALTI
from lightning_xai.attributions.at_layer import AtLayer, with_each_layer
from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.decompx import DecompX
from lightning_xai.attributions.glob_enc import GlobEnc
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.rollout import AttentionRollout
from lightning_xai.models.base import Classifier
from lightning_xai.models.bilstm import BiLSTMAttention
from tests.conftest import text_inputs, tiny_classifier

METHODS = [Attention(), AttentionRollout(), ALTI(), GlobEnc(), DecompX(score="norm"), DecompX(score="logit")]
by_name = pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{type(m).__name__}-{getattr(m, 'score', '')}")
TARGETS = torch.tensor([[0], [1]])


def eager() -> Classifier:
    network = tiny_classifier("bert")
    network.set_attention("eager")
    return network


@by_name
def test_scores_at_a_layer_are_those_of_a_network_that_ends_there(method: AttributionMethod):
    network, inputs = eager(), text_inputs([5, 3])
    shorter: Any = copy.deepcopy(network)
    del shorter.transformer.bert.encoder.layer[1:]
    shorter.transformer.config.num_hidden_layers = 1
    found = AtLayer(method, 0).attribute(network, inputs, TARGETS).scores
    expected = method.attribute(shorter, inputs, TARGETS).scores
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, method.attribute(network, inputs, TARGETS).scores)


@by_name
def test_scores_at_the_last_layer_are_those_of_the_method(method: AttributionMethod):
    network, inputs = eager(), text_inputs([5, 3])
    last = AtLayer(method, len(network.encoder_layers()) - 1).attribute(network, inputs, TARGETS).scores
    assert torch.equal(last, method.attribute(network, inputs, TARGETS).scores)


@pytest.mark.parametrize("method", [Gradient(), AttInGrad()], ids=["Gradient", "AttInGrad"])
def test_methods_that_need_the_whole_network_are_refused(method):
    with pytest.raises(ValueError, match="cannot explain the states after an inner layer: choose Attention"):
        AtLayer(method, 0)


def test_layers_that_the_network_lacks_are_refused():
    with pytest.raises(ValueError, match="layer is -1"):
        AtLayer(Attention(), -1)
    with pytest.raises(ValueError, match="layer is 7, but the network only has the layers 0 to 1"):
        AtLayer(Attention(), 7).attribute(eager(), text_inputs([5, 3]), TARGETS)


def test_network_whose_head_attends_to_tokens_is_refused():
    with pytest.raises(ValueError, match="head attends to the states of the last layer"):
        AtLayer(Attention(), 0).attribute(tiny_classifier("plm_ca"), text_inputs([5, 3]), TARGETS)


def test_layer_all_stands_for_one_method_per_layer():
    network = eager()
    methods = with_each_layer({"alti": AtLayer(ALTI(), "all"), "rollout": AttentionRollout()}, network)
    assert list(methods) == ["alti_layer0", "alti_layer1", "rollout"]
    assert [method.layer for method in methods.values() if isinstance(method, AtLayer)] == [0, 1]
    assert with_each_layer(methods, network) == methods  # for the next stage of the same callback


def test_names_of_layers_that_are_already_used_are_refused():
    every = AtLayer(Attention(), "all")
    for methods in ({"a": every, "a_layer1": Attention()}, {"a_layer1": Attention(), "a": every}):
        with pytest.raises(ValueError, match="methods has a_layer1, and a with layer: all also makes it"):
            with_each_layer(methods, eager())


def test_layer_all_is_refused_where_no_callback_replaces_it():
    with pytest.raises(ValueError, match="layer is all, which only ComputeAttributions accepts"):
        AtLayer(Attention(), "all").attribute(eager(), text_inputs([5]), TARGETS[:1])


def test_a_network_without_layers_keeps_the_method_which_names_the_cause():
    network, method = BiLSTMAttention(vocab_size=20, num_classes=2), AtLayer(Attention(), "all")
    assert with_each_layer({"a": method}, network) == {"a": method}
    with pytest.raises(ValueError, match="BiLSTMAttention has no layers that can be decomposed"):
        method.attribute(network, text_inputs([5]), TARGETS[:1])
