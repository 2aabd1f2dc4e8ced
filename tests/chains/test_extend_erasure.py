"""The tokens that recursive ROAR erases next, on numbers worked out by hand."""

import pytest
import torch

from lightning_xai.chains.roar import extend_erasure, num_erased


def erasure(scores, *, count, mask=None, erased=()):
    scores = torch.tensor([scores])
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else torch.tensor([mask]).bool()
    keep = torch.ones_like(mask)
    keep[0, list(erased)] = False
    return (~extend_erasure(scores, mask, keep, torch.tensor([count])))[0].nonzero().flatten().tolist()


def test_highest_scores_are_erased():
    assert erasure([0.1, 0.4, 0.3, 0.2], count=2) == [1, 2]


def test_erased_tokens_stay_erased_and_count():
    assert erasure([0.1, 0.4, 0.3, -9.0], count=2, erased=[3]) == [1, 3]


def test_erased_tokens_precede_any_finite_score():
    assert erasure([3e38, 1.0, 0.0], count=1, erased=[2]) == [2]


def test_of_equal_scores_the_first_is_erased():
    assert erasure([0.5, 0.5, 0.5, 0.5], count=2) == [0, 1]


def test_tokens_that_may_not_be_explained_are_never_erased():
    assert erasure([9.0, 0.1, 0.2, 9.0], count=4, mask=[0, 1, 1, 0]) == [1, 2]


def test_larger_erasures_of_the_same_scores_contain_smaller_ones():
    scores = torch.rand(1, 12).tolist()[0]
    nested = [set(erasure(scores, count=count)) for count in range(13)]
    assert all(small < large for small, large in zip(nested, nested[1:], strict=False))


@pytest.mark.parametrize("amount, wanted", [(0, [0, 0, 0]), (10, [0, 1, 9]), (70, [4, 9, 63]), (100, [7, 13, 90])])
def test_percentages_are_rounded_down_without_float_errors(amount, wanted):  # oracle E6: 70 % of 90 is 63
    assert num_erased(torch.tensor([7, 13, 90]), amount, amount_unit="percentage").tolist() == wanted


def test_tokens_are_counted_up_to_the_length():
    assert num_erased(torch.tensor([0, 2, 9]), 3, amount_unit="token").tolist() == [0, 2, 3]
