"""Activation and dropout of classification heads."""

from typing import Any

import pytest
import torch

from lightning_xai.models.hf_classifier import HFClassifier
from tests.conftest import text_inputs, tiny_classifier


def test_big_bird_has_the_head_of_the_paper():
    network = tiny_classifier("big_bird", dropout=0.5, head_dropout=0.0, head_activation="tanh")
    head: Any = network.transformer.classifier
    assert head.dropout.p == 0.0 and network.transformer.bert.embeddings.dropout.p == 0.5
    output = network(text_inputs([7]), output_hidden_states=True)
    state = output.hidden_states[-1][:, 0]  # of [CLS]
    expected = head.out_proj(torch.tanh(head.dense(state)))
    assert torch.allclose(output.logits, expected)
    for part in network.head_layers():
        state = part(state)
    assert torch.allclose(output.logits, state)  # decompositions see the same head


def test_other_parts_keep_their_activation():
    changed = tiny_classifier("big_bird", head_activation="tanh")
    assert changed.transformer.config.hidden_act == "gelu_new"


@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_activation_modules_are_replaced(kind):
    plain, changed = tiny_classifier(kind), tiny_classifier(kind, head_activation="relu")
    assert not torch.allclose(plain(text_inputs([7])).logits, changed(text_inputs([7])).logits)


@pytest.mark.parametrize("kind", ["big_bird", "bert"])
def test_network_rebuilt_from_its_architecture_has_the_same_head(kind):
    network = tiny_classifier(kind, head_dropout=0.25, head_activation="relu")
    rebuilt = HFClassifier(**network.architecture())
    rebuilt.load_state_dict(network.state_dict())
    assert torch.equal(rebuilt.eval()(text_inputs([7])).logits, network(text_inputs([7])).logits)
    probabilities = [[m.p for m in n.modules() if isinstance(m, torch.nn.Dropout)] for n in (network, rebuilt)]
    assert probabilities[0] == probabilities[1] and 0.25 in probabilities[0]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("roberta", {"head_activation": "relu"}, "the head of roberta has a fixed activation"),
        ("distilbert", {"head_activation": "tanh"}, "the head of distilbert has a fixed activation"),
        ("bert", {"head_activation": "no such word"}, "head_activation is 'no such word'"),
        ("bert", {"head_dropout": 1.0}, "head_dropout is 1.0: give a probability"),
        ("llama", {"head_dropout": 0.1}, "the head of llama has no separate dropout"),
    ],
)
def test_options_that_a_head_lacks_are_refused(kind, options, message):
    with pytest.raises(ValueError, match=message):
        tiny_classifier(kind, **options)
