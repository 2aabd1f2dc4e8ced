import pytest
import torch

from lightning_xai.functional.scores.rationales import align_rationale
from lightning_xai.types import Attribution

RATIONALE = Attribution(
    scores=torch.tensor([[[1.0, 0.0, 0.4], [0.0, 0.5, 0.0]]]),
    targets=torch.tensor([[3, 1]]),
    target_mask=torch.tensor([[True, True]]),
    token_mask=torch.ones(1, 3, dtype=torch.bool),
)
TARGETS = torch.tensor([[1, 2, 3]])  # another order, and one class without a rationale


@pytest.mark.parametrize(
    "match, expected",
    [
        ("class", [[0, 1, 0], [0, 0, 0], [1, 0, 0]]),
        ("gold", [[1, 0, 0]] * 3),
        ("any", [[1, 1, 0]] * 3),
    ],
)
def test_evidence_follows_the_class_not_the_order(match, expected):
    evidence = align_rationale(RATIONALE, TARGETS, torch.tensor([3]), match=match)
    assert evidence.int().tolist() == [expected]


def test_gold_classes_may_be_many():
    labels = torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    assert align_rationale(RATIONALE, TARGETS, labels, match="gold")[0, 0].tolist() == [True, True, False]


def test_padding_rows_of_a_rationale_are_no_evidence():
    padded = Attribution(RATIONALE.scores, RATIONALE.targets, torch.tensor([[True, False]]), RATIONALE.token_mask)
    assert not align_rationale(padded, torch.tensor([[1]]), torch.tensor([3])).any()
