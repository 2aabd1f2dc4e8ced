from typing import cast

import pytest
import torch

from lightning_xai.functional.scores.aggregation import (
    Pooling,
    from_words,
    normalize,
    pool,
    restrict,
    to_words,
    vocabulary_norm,
)

SCORES = torch.tensor([[[5.0, 1.0, -3.0, 2.0, 7.0, 0.0]]])
WORD_IDS = torch.tensor([[-1, 0, 0, 1, -1, -1]])


@pytest.mark.parametrize(("pooling", "wanted"), [("l2", 5.0), ("l1", 7.0), ("sum", -1.0), ("mean", -0.5)])
def test_pool_makes_one_score_of_a_tokens_values(pooling, wanted):
    assert pool(torch.tensor([[3.0, -4.0]]), pooling).item() == wanted


def test_an_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match="choose 'l2'"):
        pool(torch.ones(1, 2), cast(Pooling, "max"))


def test_restrict_keeps_scores_inside_the_mask():
    mask = torch.tensor([[False, True, True, False, False, False]])
    assert restrict(SCORES, mask).tolist() == [[[0, 1, -3, 0, 0, 0]]]


def test_normalize_divides_by_the_sum_of_magnitudes_inside_the_mask():
    mask = torch.tensor([[False, True, True, False, False, False]])
    assert normalize(SCORES, mask).tolist() == [[[0, 0.25, -0.75, 0, 0, 0]]]


def test_normalize_leaves_a_row_of_zeros():
    assert not normalize(torch.zeros(1, 1, 3), torch.ones(1, 3, dtype=torch.bool)).any()


@pytest.mark.parametrize(("pooling", "wanted"), [("sum", [-2, 2]), ("mean", [-1, 2]), ("max", [1, 2])])
def test_to_words_pools_the_tokens_of_a_word(pooling, wanted):
    assert to_words(SCORES, WORD_IDS, pooling).tolist() == [[wanted]]


def test_the_largest_of_negative_scores_is_negative():
    assert to_words(-SCORES.abs(), WORD_IDS, "max").tolist() == [[[-1, -2]]]


def test_a_word_that_a_row_does_not_have_scores_zero():
    word_ids = torch.tensor([[0, 1, 2], [0, -1, -1]])
    words = to_words(torch.full((2, 1, 3), -1.0), word_ids, "max")
    assert words.tolist() == [[[-1, -1, -1]], [[-1, 0, 0]]]


def test_from_words_gives_every_token_its_words_score():
    assert from_words(torch.tensor([[[4.0, 9.0]]]), WORD_IDS).tolist() == [[[0, 4, 4, 9, 0, 0]]]


def test_rows_without_words_have_no_word_scores():
    none = torch.full((1, 6), -1)
    assert to_words(SCORES, none, "sum").shape == (1, 1, 0)
    assert from_words(to_words(SCORES, none, "sum"), none).tolist() == [[[0] * 6]]


def test_the_norm_over_the_vocabulary_has_a_derivative_at_zero():
    values = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    table = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    norms = vocabulary_norm(values, table)
    torch.testing.assert_close(norms, torch.tensor([(9.0 + 16 + 64) ** 0.5, 0.0]))
    norms.sum().backward()
    assert values.grad is not None
    assert values.grad.isfinite().all() and values.grad[1].tolist() == [0, 0]
