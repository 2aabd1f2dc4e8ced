import pytest
import torch

from lightning_xai.functional.classes.targets import gold_pairs, select_targets

PROBS = torch.tensor([[0.9, 0.6, 0.2], [0.1, 0.3, 0.5]])
LABELS = torch.tensor([[0, 1, 1], [0, 0, 0]])


def chosen(targets, target_mask):
    return [row[mask].tolist() for row, mask in zip(targets, target_mask, strict=True)]


@pytest.mark.parametrize(
    "policy, expected",
    [
        ("gold", [[1, 2], []]),
        ("predicted", [[0, 1], []]),
        ("gold_or_predicted", [[0, 1, 2], []]),
        ("all", [[0, 1, 2]] * 2),
    ],
)
def test_multilabel_classes_follow_the_policy(policy, expected):
    assert chosen(*select_targets(policy, PROBS, LABELS)) == expected


def test_threshold_is_exclusive():
    assert chosen(*select_targets("predicted", PROBS, LABELS, decision_threshold=0.3)) == [[0, 1], [2]]


@pytest.mark.parametrize(
    "policy, expected",
    [("gold", [[1], [2]]), ("predicted", [[0], [2]]), ("gold_or_predicted", [[0, 1], [2]]), ("all", [[0, 1, 2]] * 2)],
)
def test_single_label_classes_follow_the_policy(policy, expected):
    assert chosen(*select_targets(policy, PROBS, torch.tensor([1, 2]))) == expected


def test_topk_descends_in_probability():
    targets, target_mask = select_targets("topk", PROBS, torch.tensor([1, 2]), topk=2)
    assert targets.tolist() == [[0, 1], [2, 1]]
    assert target_mask.all()


def test_a_batch_without_any_class_keeps_one_padding_row():
    targets, target_mask = select_targets("gold", PROBS, torch.zeros(2, 3))
    assert targets.tolist() == [[0], [0]]
    assert not target_mask.any()


def test_topk_beyond_the_classes_is_refused():
    with pytest.raises(ValueError, match="topk is 4"):
        select_targets("topk", PROBS, LABELS, topk=4)


def test_gold_pairs_of_single_labels():
    assert gold_pairs(torch.tensor([2, 0]), torch.tensor([[2, 1], [1, 0]])).tolist() == [[True, False], [False, True]]


def test_gold_pairs_of_many_labels():
    assert gold_pairs(LABELS, torch.tensor([[2, 0], [1, 1]])).tolist() == [[True, False], [False, False]]
