import pytest
import torch

from lightning_xai.attributions.attention import Attention
from tests.attributions.conftest import GOLDEN_MODELS
from tests.conftest import text_inputs


@pytest.mark.parametrize("name", GOLDEN_MODELS)
def test_scores_are_those_of_the_authors_code(golden, name):  # golden/last_layer_attention.json
    case = golden("last_layer_attention", name)
    scores = Attention().scores(case.model, case.inputs, case.targets)
    for row, expected in zip(scores, case.rows("cls_row"), strict=True):
        torch.testing.assert_close(row[:, : len(expected)], expected.expand(len(row), -1), rtol=0, atol=1e-8)


def test_cross_attention_is_the_classes_own_row(tiny_plm_ca):
    inputs, targets = text_inputs([13, 20]), torch.tensor([[4, 0], [2, 2]])
    scores = Attention().attribute(tiny_plm_ca, inputs, targets).scores
    readout = tiny_plm_ca(inputs).readout.detach()
    assert torch.equal(scores[0], readout[0, [4, 0]]) and torch.equal(scores[1], readout[1, [2, 2]])


def test_rows_sum_to_one(tiny_plm_ca):
    scores = Attention().attribute(tiny_plm_ca, text_inputs([13, 20]), torch.tensor([[0], [1]])).scores
    torch.testing.assert_close(scores.sum(-1), torch.ones(2, 1))


def test_a_network_without_eager_attention_is_refused(tiny_hf):
    with pytest.raises(ValueError, match="eager"):
        Attention().attribute(tiny_hf, text_inputs([5]), torch.tensor([[0]]))
