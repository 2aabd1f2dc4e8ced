"""A network of the first layers has the states that the whole network has after these layers."""

import pytest
import torch

from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.types import TextInputs
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

KINDS = ["bert", "distilbert", "roberta", "electra", "big_bird", "deberta-v2", "modernbert", "llama", "gpt2"]


def deep(kind: str) -> dict:
    config = dict(TINY_CONFIGS[kind])
    names = ["num_hidden_layers", "n_layers", "n_layer"]
    return config | {name: 3 for name in names if name in config}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in TINY_CONFIGS])
def test_first_layers_of_a_folder_are_loaded(kind, tmp_path):
    whole = tiny_classifier(kind, config=deep(kind))
    whole.transformer.save_pretrained(tmp_path)
    short = HFClassifier(str(tmp_path), 3, num_layers=2).eval()
    inputs = text_inputs([5, 8])
    states = [network(inputs, output_hidden_states=True).hidden_states for network in (short, whole)]
    assert len(states[0]) == len(states[1]) - 1 == 3
    for ours, theirs in zip(states[0][:2], states[1], strict=False):
        torch.testing.assert_close(ours, theirs)
    assert short.weight_gaps.unread == ()


def test_weights_that_belong_to_no_layer_stay_gaps(tmp_path):
    whole = tiny_classifier("bert", config=deep("bert"))
    whole.transformer.save_pretrained(tmp_path)
    encoder = PLMCA(str(tmp_path), 3, num_layers=1, segment_length=4)
    assert encoder.weight_gaps.unread == ()
    assert not any(name.startswith("transformer") for name in encoder.weight_gaps.fresh)


def test_a_shortened_network_is_rebuilt_from_its_architecture():
    network = PLMCA(config=deep("bert"), num_classes=3, segment_length=4, num_layers=1)
    again = PLMCA(**network.architecture())
    again.load_state_dict(network.state_dict())
    assert again.architecture() == network.architecture()
    assert again.architecture()["num_layers"] is None
    inputs = TextInputs.of_ids([[1, 5, 6, 2, 7]])
    assert torch.equal(again.eval()(inputs).logits, network.eval()(inputs).logits)


@pytest.mark.parametrize("num_layers", [0, -1, 4])
def test_other_numbers_of_layers_are_refused(num_layers):
    with pytest.raises(ValueError, match=f"num_layers is {num_layers}: give 1 to 3 "):
        HFClassifier(config=deep("bert"), num_layers=num_layers)
