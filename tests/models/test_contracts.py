"""A network that breaks a contract gets the message of that contract, and checks leave the network unchanged."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from lightning_xai.models.base import Classifier
from lightning_xai.models.contracts import contract_violations, random_inputs
from lightning_xai.models.hf_classifier import random_bert
from lightning_xai.types import ClassifierOutput, TextInputs
from tests.conftest import tiny_classifier


class Broken(Classifier):
    """A network that changes the inputs or outputs of another one so that it breaks one contract.

    Args:
        network: keeps all contracts.
        contract: the contract to break.
    """

    readout_is_attention = False
    attention_implementation = "eager"

    def __init__(self, network: Classifier, contract: str) -> None:
        super().__init__()
        self.network, self.contract = network, contract
        self.num_classes, self.multilabel, self.pad_id = network.num_classes, False, network.pad_id

    @property
    def embedding_matrix(self) -> Tensor:
        return self.network.embedding_matrix

    def embed(self, inputs: TextInputs) -> Tensor:
        return self.network.embed(inputs)

    def head_parameters(self) -> list[nn.Parameter]:
        return []

    def set_attention(self, implementation) -> None:
        pass

    def forward(
        self,
        inputs: TextInputs,
        inputs_embeds: Tensor | None = None,
        *,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> ClassifierOutput:
        if self.contract == "embeddings" and inputs_embeds is not None:
            inputs_embeds = 2 * inputs_embeds
        output = self.network(
            inputs, inputs_embeds, output_attentions=output_attentions, output_hidden_states=output_hidden_states
        )
        width = inputs.input_ids.shape[1]
        if self.contract == "padding":
            return replace(output, logits=output.logits + width)
        if self.contract == "neighbors":
            return replace(output, logits=output.logits + len(inputs))
        if self.contract == "ids at padding":
            return replace(output, logits=output.logits + inputs.input_ids.sum(dim=1, keepdim=True))
        if self.contract == "special ids":
            special = (inputs.input_ids == 2).sum(dim=1, keepdim=True)
            return replace(output, logits=output.logits + special)
        if self.contract == "readout":
            return replace(output, readout=output.readout.roll(1, dims=-1))
        if self.contract == "states" and output.hidden_states is not None:
            return replace(output, hidden_states=tuple(state.clone() for state in output.hidden_states))
        if self.contract == "attentions" and output.attentions is not None:
            return replace(output, attentions=tuple(2 * attention for attention in output.attentions))
        if self.contract == "shapes" and output.attentions is not None:
            return replace(output, attentions=tuple(attention[..., 1:] for attention in output.attentions))
        return output


def test_a_network_that_keeps_all_contracts_has_no_violations():
    assert contract_violations(Broken(random_bert(), "none"), special_ids=[1, 2]) == []


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        ("embeddings", "logits from embeddings differ from logits from ids by"),
        ("padding", "padding on the right changes logits by 3"),
        ("neighbors", "a neighbor in the batch changes logits by 1"),
        ("ids at padding", "ids at padding positions alter logits by"),
        ("special ids", "with the same embeddings, pad or special ids inside the text alter logits by"),
        ("readout", "100% of the head's gradient is at tokens with weight 0 in the readout"),
        ("states", "the head does not read the last hidden state"),
        ("attentions", "sums of the attentions' rows differ from 1 by up to 1"),
        ("shapes", "not one row and one column for each token"),
    ],
)
def test_a_broken_contract_is_named(contract, message):
    violations = contract_violations(Broken(random_bert(), contract), special_ids=[1, 2])
    assert any(message in violation for violation in violations)


def test_logits_that_are_no_numbers_break_a_contract():
    network = random_bert()
    with torch.no_grad():
        network.embedding_matrix.fill_(torch.nan)
    assert contract_violations(network) != []


def test_segments_may_have_fewer_columns_than_the_text():
    model = tiny_classifier("plm_ca", segment_length=3)
    assert contract_violations(model, special_ids=model.special_ids, segmented=True) == []
    assert "not one row and one column for each token" in contract_violations(model, special_ids=model.special_ids)[0]


def test_the_check_leaves_modes_kernel_and_random_state():
    model = tiny_classifier("bert").train()
    model.transformer.base_model.eval()
    modes, state = [module.training for module in model.modules()], torch.get_rng_state()
    contract_violations(model)
    assert [module.training for module in model.modules()] == modes
    assert model.attention_implementation == "sdpa" and torch.equal(torch.get_rng_state(), state)


def test_random_inputs_hold_no_pad_id_inside_and_nothing_else_outside():
    model = random_bert()
    inputs = random_inputs(model, [7, 2, 5])
    assert inputs.attention_mask.sum(dim=1).tolist() == [7, 2, 5]
    assert torch.equal(inputs.input_ids != model.pad_id, inputs.attention_mask)


def test_random_inputs_stay_inside_a_small_vocabulary():
    sizes = {"vocab_size": 3, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = tiny_classifier("bert", config={"model_type": "bert", "intermediate_size": 4, **sizes})
    assert set(random_inputs(model, [20]).input_ids.flatten().tolist()) <= {1, 2}
