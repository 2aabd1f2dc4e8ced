"""How concentrated attributions are: numbers worked out by hand and of Edin et al."""

import pytest
import torch

from lightning_xai.metrics.complexity import (
    Entropy,
    SpecialTokenShare,
    TopShare,
    gini,
    mass_fraction,
    normalized_entropy,
    top_shares,
)
from lightning_xai.metrics.top_units import Counts, Percentages
from tests.metrics.conftest import bag_of_words, explained_batch, rationale_of

ONES = torch.ones(8, dtype=torch.bool)


# made with the code of Edin et al. (2024)
@pytest.mark.parametrize(
    "scores, expected",
    [
        ([0.5, 0.3, 0.1, 0.06, 0.04, 0, 0, 0], 0.594190),
        ([1 / 8] * 8, 1.0),
        ([0.02, 0.02, 0.9, 0.02, 0.02, 0.02, 0, 0], 0.233729),
    ],
)
def test_entropy_equals_edin(scores, expected):
    assert float(normalized_entropy(torch.tensor(scores), ONES)) == pytest.approx(expected, abs=1e-6)


def test_entropy_of_a_single_token_is_undefined():
    assert normalized_entropy(torch.tensor([0.5, 0.5]), torch.tensor([True, False])).isnan()


def test_entropy_can_be_limited_to_classes_with_evidence():
    attribution, batch = explained_batch([20, 11])
    annotated = [set(row) for row in rationale_of(batch).targets.tolist()]
    metric = Entropy(evidence_only=True)
    metric.update(attribution, batch, bag_of_words)
    keys, records = metric.table()
    assert [not value.isnan() for value in records[:, 0]] == [c in annotated[b] for b, c in keys.tolist()]


def test_gini_equals_the_mean_difference_of_all_pairs():
    scores = torch.rand(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 0.5
    sizes = scores.abs()
    pairs = (sizes.unsqueeze(0) - sizes.unsqueeze(1)).abs().mean() / (2 * sizes.mean())
    assert float(gini(scores, ONES)) == pytest.approx(float(pairs))


def test_gini_ignores_masked_tokens():
    mask = ONES.clone()
    mask[4:] = False
    scores = torch.arange(8.0)
    assert float(gini(scores, mask)) == pytest.approx(float(gini(scores[:4], ONES[:4])))


def test_mass_fraction_counts_the_fewest_tokens():
    scores = torch.tensor([0.0, 6.0, 0.0, -3.0, 1.0, 0.0, 0.0, 0.0])
    assert float(mass_fraction(scores, ONES)) == 2 / 8
    assert float(mass_fraction(scores, ONES, 0.95)) == 3 / 8
    assert float(mass_fraction(torch.ones(10), torch.ones(10, dtype=torch.bool))) == 0.9


def test_scores_of_zero_are_undefined():
    zeros = torch.zeros(8)
    assert all(f(zeros, ONES).isnan() for f in (normalized_entropy, gini, mass_fraction))


def test_special_token_share_counts_cls_and_sep():
    attribution, batch = explained_batch([6], num_targets=1)
    attribution.scores[:] = torch.tensor([3.0, 1.0, -1.0, 1.0, 1.0, 3.0])
    attribution.target_mask.fill_(True)
    metric = SpecialTokenShare()
    metric.update(attribution, batch, bag_of_words)
    assert float(metric.compute()["special_token_share"]) == pytest.approx(0.6)


def test_top_shares_are_those_of_the_largest_sizes():
    scores = torch.tensor([0.0, 6.0, 0.0, -3.0, 1.0, 0.0, 0.0, 0.0])
    assert top_shares(scores, ONES, torch.tensor([0, 1, 2, 3, 20])).tolist() == pytest.approx([0, 0.6, 0.9, 1, 1])


def test_top_shares_leave_masked_tokens_out():
    scores = torch.tensor([[1.0, 3.0, 96.0]])
    assert float(top_shares(scores, torch.tensor([[True, True, False]]), torch.tensor([[1]]))) == 0.75


def test_top_shares_of_zeros_are_undefined():
    assert top_shares(torch.zeros(8), ONES, torch.tensor([0, 3])).isnan().all()


def test_top_percentages_are_rounded_down_to_tokens():
    attribution, batch = explained_batch([9])
    by_percent = TopShare(Percentages([30.0], rounding="floor"))  # 30 % of 7 tokens, specials left out
    by_count = TopShare(Counts([2]))
    for metric in (by_percent, by_count):
        metric.update(attribution, batch, bag_of_words)
    tokens = int(attribution.token_mask.sum())
    assert 30 * tokens // 100 == 2
    assert torch.equal(by_percent.table()[1], by_count.table()[1])
