import pytest
import torch

from lightning_xai.attributions.rollout import AttentionRollout
from tests.attributions.conftest import GOLDEN_MODELS
from tests.conftest import text_inputs


@pytest.mark.parametrize("name", GOLDEN_MODELS)
def test_scores_are_those_of_the_authors_code(golden, name):  # golden/attention_rollout.json
    case = golden("attention_rollout", name)
    scores = AttentionRollout().scores(case.model, case.inputs, case.targets)
    for row, expected in zip(scores, case.rows("cls_row"), strict=True):
        torch.testing.assert_close(row[:, : len(expected)], expected.expand(len(row), -1), rtol=0, atol=1e-8)


def test_segments_are_followed_separately(tiny_plm_ca):
    tiny_plm_ca.double().set_attention("eager")
    inputs, targets = text_inputs([21]), torch.tensor([[3, 1]])  # segments of 8, 8 and 5 tokens
    output = tiny_plm_ca(inputs, output_attentions=True)
    expected = torch.zeros(2, 24, dtype=torch.float64)
    for segment in range(3):
        product = torch.eye(8, dtype=torch.float64)
        for attention in output.attentions:
            product = (attention[segment].mean(0) + torch.eye(8)) / 2 @ product
        columns = slice(8 * segment, 8 * segment + 8)
        readout = torch.nn.functional.pad(output.readout, (0, 3))[0, [3, 1], columns]
        expected[:, columns] = readout @ product
    torch.testing.assert_close(AttentionRollout().scores(tiny_plm_ca, inputs, targets)[0], expected[:, :21])


def test_rows_sum_to_one(tiny_plm_ca):
    tiny_plm_ca.set_attention("eager")
    scores = AttentionRollout().attribute(tiny_plm_ca, text_inputs([13, 20]), torch.tensor([[0], [1]])).scores
    torch.testing.assert_close(scores.sum(-1), torch.ones(2, 1))


@pytest.mark.parametrize("residual_fraction", [-0.1, 1.0])
def test_a_residual_fraction_outside_the_unit_interval_is_refused(residual_fraction):
    with pytest.raises(ValueError, match="residual_fraction is"):
        AttentionRollout(residual_fraction)
