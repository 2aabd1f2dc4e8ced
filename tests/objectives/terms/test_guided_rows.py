"""The pairs of example and class whose scores are compared with a rationale."""

from dataclasses import replace

import pytest
import torch

from lightning_xai.objectives.terms.guided_rows import Unannotated, guided_rows
from lightning_xai.types import Attribution, Batch, TextInputs

INPUTS = TextInputs.of_ids([[1, 5, 6, 2], [1, 7, 8, 2]], special_ids=[1, 2])
# evidence of the first text for class 0 (token 1) and class 1 (token 2); the second text has none
SCORES = [[[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]], [[0.0] * 4, [0.0] * 4]]


def batch_of(labels: torch.Tensor, **changes) -> Batch:
    return replace(Batch(INPUTS, labels, Attribution.of_scores(SCORES, INPUTS.token_mask)), **changes)


def test_a_text_is_compared_with_the_evidence_for_its_gold_class():
    rows = guided_rows(batch_of(torch.tensor([1, 0])), unannotated="leave_out")
    assert rows.targets.tolist() == [[1], [0]] and rows.mask.tolist() == [[True], [False]]
    assert rows.evidence[0].tolist() == [[False, False, True, False]]


@pytest.mark.parametrize(
    ("unannotated", "cut", "expected"),
    [
        ("leave_out", None, [True, False]),
        ("empty_target", None, [True, True]),
        ("empty_target", [[0, 0], [0, 0]], [True, True]),
        ("empty_target", [[0, 0], [1, 0]], [True, False]),  # truncation removed the evidence for class 0
        ("empty_target", [[0, 0], [0, 1]], [True, True]),  # for another class
    ],
)
def test_a_text_without_evidence_is_left_out_or_gets_an_empty_rationale(
    unannotated: Unannotated, cut: list[list[int]] | None, expected: list[bool]
) -> None:
    batch = batch_of(torch.tensor([1, 0]), evidence_cut=None if cut is None else torch.tensor(cut))
    rows = guided_rows(batch, unannotated=unannotated)
    assert rows.mask.flatten().tolist() == expected and not rows.evidence[1].any()


def test_in_multilabel_data_each_gold_class_with_evidence_is_a_row():
    rows = guided_rows(batch_of(torch.tensor([[1.0, 0.0], [1.0, 1.0]])), unannotated="leave_out")
    assert rows.targets.tolist() == [[0, 1], [0, 1]] and rows.mask.tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize("labels", [torch.tensor([1, 0]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])])
def test_without_rationales_no_row_is_compared(labels):
    rows = guided_rows(batch_of(labels, rationale=None), unannotated="empty_target")
    assert not rows.mask.any() and not rows.evidence.any() and rows.evidence.shape == (2, 1, 4)
