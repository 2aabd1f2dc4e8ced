import torch

from lightning_xai.callbacks.changed_classes import ChangedClasses


def changed(first: list[list[float]], second: list[list[float]], *, multilabel: bool = False) -> ChangedClasses:
    """Returns the comparison of the examples 0, 1, ... at the decision threshold 0.4."""
    counts, index = ChangedClasses(), torch.arange(len(first))
    probs = torch.tensor(first), torch.tensor(second)
    counts.add("test", index, *probs, multilabel=multilabel, decision_threshold=0.4)
    return counts


def test_equal_classes_print_nothing():
    assert changed([[0.1, 0.9]], [[0.4, 0.6]]).lines("bf16-mixed") == []


def test_examples_of_all_processes_count_once():
    counts = changed([[0.5, 0.5], [0.1, 0.9]], [[0.4, 0.6], [0.2, 0.8]])
    (line,) = ChangedClasses.total([counts, counts]).lines("bf16-mixed")
    assert line.startswith("test: for 1 of 2 explained texts, the predicted classes differ")


def test_one_of_several_classes_is_enough_if_multi_label():
    (line,) = changed([[0.39, 0.9]] * 2, [[0.41, 0.9]] * 2, multilabel=True).lines("bf16-mixed")
    assert "for 2 of 2 explained texts, the predicted classes differ" in line
