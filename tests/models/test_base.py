"""The base of classifiers keeps constructor arguments, computes probabilities, and predicts in chunks."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lightning_xai.models.base import Classifier, check_num_classes
from lightning_xai.types import ClassifierOutput, TextInputs


class Counting(Classifier):
    """Reads the mean of its embeddings and records the shape of every batch."""

    readout_is_attention = False
    attention_implementation = "eager"

    def __init__(self, num_classes: int, multilabel: bool = False, *, scale: float = 2.0) -> None:
        super().__init__()
        self.num_classes, self.multilabel, self.pad_id = num_classes, multilabel, 0
        self.table = nn.Embedding(9, num_classes)
        self.shapes: list[tuple[int, ...]] = []

    @property
    def embedding_matrix(self) -> Tensor:
        return self.table.weight

    def embed(self, inputs: TextInputs) -> Tensor:
        return self.table(inputs.input_ids)

    def head_parameters(self) -> list[nn.Parameter]:
        return []

    def set_attention(self, implementation) -> None:
        pass

    def forward(self, inputs, inputs_embeds=None, *, output_attentions=False, output_hidden_states=False):
        self.shapes.append(tuple(inputs.input_ids.shape))
        self.check_embeds(inputs, inputs_embeds)
        embeds = self.embed(inputs) if inputs_embeds is None else inputs_embeds
        mask = inputs.attention_mask.unsqueeze(1)
        readout = mask / mask.sum(dim=-1, keepdim=True)
        return ClassifierOutput(logits=(readout @ embeds).squeeze(1), readout=readout)


INPUTS = TextInputs.of_ids([[5], [5, 6, 7, 8], [6, 7]])


def test_constructor_arguments_are_kept_with_their_defaults():
    assert Counting(3).init_args == {"num_classes": 3, "multilabel": False, "scale": 2.0}
    assert Counting(3, True, scale=1.0).init_args == {"num_classes": 3, "multilabel": True, "scale": 1.0}


def test_a_missing_argument_is_reported_by_the_constructor():
    arguments: dict[str, Any] = {}
    with pytest.raises(TypeError, match="__init__.*num_classes"):
        Counting(**arguments)


def test_a_copy_keeps_the_constructor_arguments():
    assert copy.deepcopy(Counting(3, scale=1.0)).init_args == Counting(3, scale=1.0).init_args


def test_probabilities_of_several_labels_are_sigmoids_and_of_one_label_a_softmax():
    logits = torch.tensor([[0.0, 0.0]], dtype=torch.bfloat16)
    assert Counting(2, True).probabilities(logits).tolist() == [[0.5, 0.5]]
    assert Counting(4).probabilities(torch.zeros(1, 4)).tolist() == [[0.25] * 4]
    assert Counting(2).probabilities(logits).dtype == torch.float32


def test_prediction_goes_from_long_to_short_and_returns_the_order_of_the_inputs():
    network = Counting(2)
    expected = network.probabilities(network(INPUTS).logits)
    network.shapes.clear()
    torch.testing.assert_close(network.predict(INPUTS, chunk_size=1), expected)
    assert network.shapes == [(1, 4), (1, 2), (1, 1)]


def test_prediction_of_no_rows_has_no_rows():
    assert Counting(2).predict(INPUTS[:0]).shape == (0, 2)


def test_prediction_has_no_gradient():
    assert not Counting(2).predict(INPUTS).requires_grad


def test_embeddings_of_other_rows_or_tokens_are_refused():
    network = Counting(2)
    network.check_embeds(INPUTS, None)
    network.check_embeds(INPUTS, torch.zeros(3, 4, 2))
    for shape in [(2, 4, 2), (3, 5, 2)]:
        with pytest.raises(ValueError, match="repeat the inputs as often"):
            network.check_embeds(INPUTS, torch.zeros(shape))


def test_a_network_without_layers_or_head_to_decompose_is_refused_by_name():
    with pytest.raises(ValueError, match="Counting has no layers that can be decomposed"):
        Counting(2).encoder_layers()
    with pytest.raises(ValueError, match="Counting has no head that can be decomposed"):
        Counting(2).head_layers()


@pytest.mark.parametrize(("num_classes", "multilabel"), [(1, False), (0, True)])
def test_too_few_classes_are_refused(num_classes, multilabel):
    check_num_classes(num_classes + 1, multilabel=multilabel)
    with pytest.raises(ValueError, match=f"num_classes is {num_classes}"):
        check_num_classes(num_classes, multilabel=multilabel)
