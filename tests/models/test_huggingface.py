"""The base of classifiers on transformers moves padding, puts embeddings in place, and counts positions."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModel

from lightning_xai.models.huggingface import HeadOutput, HuggingFaceClassifier, TransformerCall
from lightning_xai.models.pretrained.transformers_config import read_config
from lightning_xai.models.pretrained.transformers_loading import load_transformer
from lightning_xai.types import TextInputs
from tests.conftest import PAD, text_inputs, tiny_classifier

CONFIG = {
    "vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8,
    "max_position_embeddings": 40,
}  # fmt: skip


class MeanPooling(HuggingFaceClassifier):
    """Reads the mean of all states, and records the masks and columns that it is given."""

    readout_is_attention = False
    num_classes = 4
    multilabel = False

    def transformer_call(self, inputs: TextInputs, inputs_embeds: Tensor | None) -> TransformerCall:
        self.masks = inputs.attention_mask
        arguments = self.network_inputs(inputs) | {"attention_mask": inputs.attention_mask.long()}
        return TransformerCall(arguments, inputs_embeds, inputs.attention_mask)

    def head_output(self, output: Any, inputs: TextInputs, columns: Tensor | None) -> HeadOutput:
        self.columns = columns
        mask = self.masks.unsqueeze(1).to(output.last_hidden_state.dtype)
        readout = mask / mask.sum(dim=-1, keepdim=True)
        return HeadOutput((readout @ output.last_hidden_state).squeeze(1), readout, output.hidden_states)


@pytest.fixture
def network() -> MeanPooling:
    config = read_config(None, {**CONFIG, "model_type": "bert", "pad_token_id": PAD}, dropout=None)
    return MeanPooling(load_transformer(AutoModel, None, config).network, "word").double().eval()


def rolled(inputs: TextInputs, columns: int) -> TextInputs:
    return inputs.map(lambda tensor: tensor.roll(columns, dims=1) if tensor.dim() > 1 else tensor)


def test_subclasses_get_padding_on_the_right_and_the_way_back(network):
    inputs = text_inputs([5], pad_to=8)
    logits = network(inputs).logits
    assert network.columns is None
    left = rolled(inputs, 3)
    torch.testing.assert_close(network(left).logits, logits, rtol=0, atol=1e-12)
    assert torch.equal(network.masks, inputs.attention_mask)
    assert torch.equal(network.masks.gather(1, network.columns), left.attention_mask)


def test_given_embeddings_are_moved_with_their_tokens(network):
    left = rolled(text_inputs([5], pad_to=8), 3)
    embeds = network.embed(left)
    torch.testing.assert_close(network(left, embeds).logits, network(left).logits, rtol=0, atol=1e-12)
    shifted = network(left, embeds + left.attention_mask.unsqueeze(-1) * embeds.roll(1, dims=-1)).logits
    assert not torch.allclose(shifted, network(left).logits)


def test_states_and_attentions_are_returned_only_if_asked_for(network):
    network.set_attention("eager")
    output = network(text_inputs([5]))
    assert output.hidden_states is None and output.attentions is None
    output = network(text_inputs([5]), output_hidden_states=True, output_attentions=True)
    assert len(output.hidden_states) == 2 and len(output.attentions) == 1


def test_positions_count_real_tokens_from_the_offset():
    model = tiny_classifier("roberta", config={**CONFIG, "model_type": "roberta", "pad_token_id": 1})
    assert model.position_offset == 2 and model.max_length == 38
    inputs = rolled(text_inputs([4], pad_to=6), 2)
    assert model.network_inputs(inputs)["position_ids"].tolist() == [[1, 1, 2, 3, 4, 5]]


def test_special_ids_are_those_of_the_config_inside_the_vocabulary():
    config = {**CONFIG, "model_type": "bert", "pad_token_id": 0, "bos_token_id": 7, "eos_token_id": 100}
    assert tiny_classifier("bert", config=config).special_ids == [0, 7]


def test_ids_at_padding_are_the_pad_id(network):
    inputs = text_inputs([3], pad_to=5)
    garbage = TextInputs(**{**vars(inputs), "input_ids": inputs.input_ids + 50})
    assert network.network_inputs(garbage)["input_ids"][0, 3:].tolist() == [PAD, PAD]


def test_a_network_without_token_types_gets_none():
    inputs = text_inputs([3])
    assert "token_type_ids" in tiny_classifier("bert").network_inputs(inputs)
    assert "token_type_ids" not in tiny_classifier("roberta").network_inputs(inputs)


def test_parameters_of_the_head_are_those_outside_the_encoder():
    model = tiny_classifier("bert")
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert {names[id(p)] for p in model.head_parameters()} == {
        "transformer.classifier.weight", "transformer.classifier.bias",
    }  # fmt: skip


def test_an_unknown_attention_kernel_is_refused(network):
    with pytest.raises(ValueError, match="attention implementation is 'flash'"):
        network.set_attention("flash")


def test_a_broken_contract_is_reported_with_the_architecture(network, monkeypatch):
    monkeypatch.setattr(MeanPooling, "differences_from_transformer", lambda self: ["logits differ by 3"])
    with pytest.raises(ValueError, match="^bert cannot be explained: .*logits differ by 3"):
        network.check_contracts()


def test_whatever_the_transformer_raises_means_that_it_cannot_be_explained(network, monkeypatch):
    def fail(inputs: TextInputs, inputs_embeds: Tensor | None) -> TransformerCall:
        raise KeyError("nothing")

    monkeypatch.setattr(network, "transformer_call", fail)
    with pytest.raises(ValueError, match="^bert cannot be explained: KeyError: 'nothing'"):
        network.check_contracts()
