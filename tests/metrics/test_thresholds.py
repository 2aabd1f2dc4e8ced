"""Thresholds with the best F1 against a search over the grid, and grids that are refused."""

import pytest
import torch

from lightning_xai.metrics.thresholds import ThresholdGrid, best_f1_threshold, micro_f1_threshold


def f1_of(predicted, gold):
    return 2 * (predicted & gold).sum() / (predicted.sum() + gold.sum())


def test_threshold_of_probabilities_equals_a_search_over_the_grid():
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(20, 5, generator=generator)
    gold = torch.rand(20, 5, generator=generator) < 0.3
    searched = max(torch.linspace(0, 1, 100), key=lambda threshold: f1_of(probs > threshold, gold))
    assert micro_f1_threshold(probs, gold) == float(searched)


def test_threshold_is_a_half_without_gold():
    assert micro_f1_threshold(torch.rand(3, 2), torch.zeros(3, 2, dtype=torch.bool)) == 0.5


def test_first_of_equally_good_thresholds_is_taken():
    counts = torch.tensor([1, 1]), torch.tensor([1, 1]), torch.tensor(1)
    assert best_f1_threshold(torch.tensor([0.25, 0.5]), *counts) == 0.25


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ThresholdGrid(maximum=0.0), "maximum is"),
        (lambda: ThresholdGrid(num_points=1), "num_points is 1"),
    ],
)
def test_grids_without_two_points_from_0_to_1_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
