"""The tokens of a rationale, on examples worked out by hand and against a loop over all windows."""

import pytest
import torch

from lightning_xai.chains.fresh import select_rationale


def selected(scores, *, count, selection, mask=None):
    scores = torch.tensor([scores], dtype=torch.float)
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else torch.tensor([mask]).bool()
    return select_rationale(scores, mask, torch.tensor([count]), selection=selection)[0].nonzero().flatten().tolist()


def test_top_takes_the_highest_scores():
    assert selected([0.1, 0.9, 0.2, 0.8], count=2, selection="top") == [1, 3]


def test_contiguous_takes_the_window_with_the_largest_sum():
    assert selected([0.9, 0.0, 0.5, 0.6, 0.1], count=2, selection="contiguous") == [2, 3]


def test_negative_scores_count_in_a_window():
    assert selected([1.0, -3.0, 0.4, 0.3], count=2, selection="contiguous") == [2, 3]


def test_window_of_negative_sums_is_not_the_empty_one():
    assert selected([-3.0, -1.0, -2.0], count=2, selection="contiguous") == [1, 2]


def test_tokens_outside_the_mask_are_stepped_over():
    assert selected([9, 1, 9, 1, 0, 9], count=2, selection="contiguous", mask=[0, 1, 0, 1, 1, 0]) == [1, 3]


@pytest.mark.parametrize("selection, wanted", [("top", [0, 1]), ("contiguous", [0, 1])])
def test_of_equal_choices_the_first_is_taken(selection, wanted):
    assert selected([0.5, 0.5, 0.5, 0.5], count=2, selection=selection) == wanted


@pytest.mark.parametrize("selection", ["top", "contiguous"])
def test_rationale_is_at_most_all_tokens_of_the_mask(selection):
    assert selected([1, 2, 3], count=5, selection=selection, mask=[1, 0, 1]) == [0, 2]


@pytest.mark.parametrize("selection", ["top", "contiguous"])
def test_nothing_is_selected_where_nothing_may_be(selection):
    assert selected([1, 2, 3], count=0, selection=selection, mask=[0, 0, 0]) == []


def test_windows_are_those_of_a_loop():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(40, 15, generator=generator)
    mask = torch.rand(40, 15, generator=generator) < 0.7
    counts = torch.randint(1, 6, (40,), generator=generator)
    found = select_rationale(scores, mask, counts, selection="contiguous")
    for row in range(40):
        places = mask[row].nonzero().flatten().tolist()
        count = min(int(counts[row]), len(places))
        windows = [places[start : start + count] for start in range(len(places) - count + 1)]
        best = max(windows, key=lambda window: scores[row, window].double().sum())
        assert found[row].nonzero().flatten().tolist() == best
