"""Similarities of explanations, on numbers worked out by hand and against scipy."""

import pytest
import torch
from scipy.stats import kendalltau, spearmanr

from lightning_xai.metrics.similarity import jaccard, kendall, similarities, spearman


def tied_scores(num_networks: int = 4, num_tokens: int = 23) -> torch.Tensor:
    return torch.randint(-4, 5, (num_networks, num_tokens), generator=torch.Generator().manual_seed(0)).float()


def test_jaccard_divides_the_shared_tokens_by_all_tokens_in_either():
    # 25 % of 8 tokens are 2, so the top sets are {0, 1}, {1, 2} and {6, 7}
    scores = torch.tensor([[9, 8, 1, 0, 0, 0, 0, 0], [0, 5, 6, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 2, 1]]).float()
    wanted = torch.tensor([[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 1]], dtype=torch.float64)
    assert torch.equal(jaccard(scores, 25), wanted)


@pytest.mark.parametrize("num_tokens, taken", [(1, 1), (4, 1), (5, 2), (9, 3), (100, 25)])
def test_jaccard_rounds_the_number_of_tokens_up(num_tokens, taken):
    # the second network ranks the tokens in the opposite order, so two sets of k of n tokens share max(2 k - n, 0)
    falling = torch.arange(num_tokens, 0, -1).float()
    similarity = jaccard(torch.stack([falling, -falling]), 25)[0, 1]
    shared = max(2 * taken - num_tokens, 0)
    assert similarity == shared / (2 * taken - shared)


def test_spearman_is_that_of_scipy_with_ties():
    scores = tied_scores()
    assert torch.allclose(spearman(scores), torch.tensor(spearmanr(scores.numpy(), axis=1).statistic), atol=1e-12)


def test_kendall_is_tau_b_of_scipy_with_ties():
    scores = tied_scores()
    wanted = [[kendalltau(a, b).statistic for b in scores.numpy()] for a in scores.numpy()]
    assert torch.allclose(kendall(scores), torch.tensor(wanted, dtype=torch.float64), atol=1e-12)


def test_kendall_does_not_depend_on_the_chunks():
    scores = tied_scores()
    assert torch.equal(kendall(scores, chunk_size=5), kendall(scores))


def test_correlation_with_constant_scores_is_undefined():
    scores = torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.5, 0.5]])
    for correlation in (spearman, kendall):
        values = correlation(scores)
        assert values[0, 0] == pytest.approx(1) and values[0, 1].isnan() and values[1, 1].isnan()


def test_opposite_orders_correlate_by_minus_one():
    scores = torch.tensor([[1.0, 2.0, 4.0], [0.3, 0.2, 0.1]])
    assert spearman(scores)[0, 1] == pytest.approx(-1) and kendall(scores)[0, 1] == pytest.approx(-1)


def test_similarities_stack_the_three_in_the_order_of_their_names():
    scores = tied_scores()
    assert torch.equal(similarities(scores, 25), torch.stack([jaccard(scores, 25), spearman(scores), kendall(scores)]))


def test_text_without_a_token_to_explain_has_no_similarity():
    values = similarities(torch.zeros(2, 0), 25)
    assert values.shape == (3, 2, 2) and values.isnan().all()
