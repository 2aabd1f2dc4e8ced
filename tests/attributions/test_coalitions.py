"""The part that all methods on coalitions share, with the smallest subclass: the text and each single unit alone."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lightning_xai.attributions import coalitions
from lightning_xai.attributions.coalitions import CoalitionAttribution, Coalitions
from tests.conftest import text_inputs, tiny_classifier

TARGETS = torch.tensor([[0, 2], [1, 0], [2, 1]])


class UnitAlone(CoalitionAttribution):
    """Scores a unit by the output for the text that keeps only this unit."""

    def num_coalitions(self, num_units: int) -> int:
        return num_units

    def coalitions(self, num_units: int, index: int | None) -> Coalitions:
        return Coalitions(torch.eye(num_units, dtype=torch.bool), torch.ones(num_units))

    def unit_scores(self, keep: Tensor, weights: Tensor, values: Tensor, num_units: Tensor) -> Tensor:
        assert keep.shape[1:] == (num_units.max(), num_units.max()) and values.dtype == torch.float64
        assert torch.equal(weights.sum(dim=1).long(), num_units) and torch.equal(keep.sum(dim=(1, 2)), num_units)
        return values


def test_each_unit_is_scored_by_its_own_text_and_class() -> None:
    model, inputs = tiny_classifier("bert").double(), text_inputs([6, 9, 5])
    scores = UnitAlone("token", "mask", "logit", None).scores(model, inputs, TARGETS)
    for row, token in inputs.token_mask.nonzero().tolist():
        keep = (torch.arange(9) == token) | ~inputs.token_mask[row]
        text = replace(inputs, input_ids=inputs.input_ids.where(keep, inputs.baseline_ids))[row : row + 1]
        with torch.no_grad():
            logits = model(text.trim()).logits[0, TARGETS[row]]
        torch.testing.assert_close(scores[row, :, token], logits, rtol=1e-10, atol=1e-10)


def test_groups_that_fit_the_memory_change_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs, method = (
        tiny_classifier("bert").double(),
        text_inputs([6, 9, 5]),
        UnitAlone("word", "mask", "logit", 2),
    )
    together = method.scores(model, inputs, TARGETS)
    monkeypatch.setattr(coalitions, "_MASK_ELEMENTS", 1)  # one example a group
    torch.testing.assert_close(method.scores(model, inputs, TARGETS), together, rtol=1e-12, atol=1e-12)


def test_the_score_of_a_word_is_the_sum_of_its_tokens() -> None:
    model, inputs = tiny_classifier("bert").double(), text_inputs([9])
    assert inputs.word_ids is not None
    scores = UnitAlone("word", "delete", "probability", None).scores(model, inputs, TARGETS[:1])[0, 0]
    first_word = inputs.word_ids[0] == 0
    text = inputs.map(lambda tensor: tensor[:, first_word | ~inputs.token_mask[0]] if tensor.dim() > 1 else tensor)
    with torch.no_grad():
        probability = model(text).logits.softmax(dim=-1)[0, 0]
    assert float(scores[first_word].sum()) == pytest.approx(float(probability), abs=1e-6)  # probabilities are float32


def test_a_text_without_units_scores_zero_and_costs_nothing(tiny_hf) -> None:
    method = UnitAlone("token", "mask", "logit", None)
    assert not method.scores(tiny_hf, text_inputs([2]), TARGETS[:1]).any()
    assert method.passes(0, 2) == (0, 0)
