"""Scores of agreement with a rationale, on numbers worked out by hand."""

import math
from typing import Any

import pytest
import torch

from lightning_xai.functional.attention import rollout
from lightning_xai.objectives.terms.guidance_scores import (
    normalized_scores,
    order_loss,
    rationale_target,
    row_losses,
)

FOUR = torch.ones(1, 4, dtype=torch.bool)
MIDDLE = torch.tensor([[[False, True, True, False]]])


def row(*scores: float) -> torch.Tensor:
    return torch.tensor([[scores]], dtype=torch.float64)


def mean_loss(scores: torch.Tensor, evidence: torch.Tensor, target: Any, **normalization: Any) -> float:
    """Returns the mean absolute error over the tokens of one row."""
    normalized = normalized_scores(scores, FOUR, **normalization)
    return float(row_losses(normalized, evidence, FOUR, score="mae", target=target)) / 4


def test_attention_times_100_and_softmax_as_in_the_published_code():
    first = normalized_scores(row(0.1, 0.4, 0.3, 0.2), FOUR, normalization="softmax", scaling=100)
    assert first.values[0, 0].tolist() == pytest.approx([9.4e-14, 0.9999546, 4.5398e-5, 2.061e-9], rel=0.01)
    assert mean_loss(
        row(0.1, 0.4, 0.3, 0.2), MIDDLE, "distribution", normalization="softmax", scaling=100
    ) == pytest.approx(0.249977, abs=1e-6)
    second = normalized_scores(row(0.010, 0.012, 0.011, 0.009), FOUR, normalization="softmax", scaling=100)
    assert second.values[0, 0].tolist() == pytest.approx([0.236328, 0.288651, 0.261183, 0.213838], abs=1e-6)
    assert mean_loss(
        row(0.010, 0.012, 0.011, 0.009), MIDDLE, "distribution", normalization="softmax", scaling=100
    ) == pytest.approx(0.225083, abs=1e-6)


def test_input_x_gradient_with_an_l2_norm_of_1_as_in_the_published_code():
    evidence = torch.tensor([[[False, True, False, False]]])
    normalized = normalized_scores(row(3, -4, 0, 0), FOUR, normalization="l2", sign="absolute")
    assert normalized.values[0, 0].tolist() == pytest.approx([0.6, 0.8, 0, 0])
    # sum of errors .6 + .2, over 4 tokens
    assert mean_loss(row(3, -4, 0, 0), evidence, "binary", normalization="l2", sign="absolute") == pytest.approx(0.2)


def test_rollout_of_two_layers():
    first, second = torch.tensor([[0.5, 0.5], [0.2, 0.8]]), torch.tensor([[0.9, 0.1], [0.4, 0.6]])
    rows = rollout(torch.eye(2).unsqueeze(0), [first[None, None], second[None, None]])
    # each layer is mixed with the identity: .75 .25 | .1 .9, then .95 .05 | .2 .8
    assert rows[0].flatten().tolist() == pytest.approx([0.7175, 0.2825, 0.23, 0.77])


def test_target_sums_to_one_or_is_binary():
    assert rationale_target(MIDDLE, target="distribution").tolist() == [[[0, 0.5, 0.5, 0]]]
    assert rationale_target(MIDDLE, target="binary").tolist() == [[[0, 1, 1, 0]]]
    assert rationale_target(MIDDLE & False, target="distribution").tolist() == [[[0, 0, 0, 0]]]


SCORES = (0.1, 0.4, 0.3, 0.2)
BY_HAND = {
    "mae": 0.1 + 0.1 + 0.2 + 0.2,
    "mse": 0.01 + 0.01 + 0.04 + 0.04,
    "huber": (0.01 + 0.01) / 2 + 0.15 * (0.2 - 0.075) * 2,  # quadratic up to .15
    "kl": 0.5 * math.log(0.5 / 0.4) + 0.5 * math.log(0.5 / 0.3),
    # target .5 at evidence, whose part has weight 3
    "bce": -sum(3 * 0.5 * math.log(s) + 0.5 * math.log(1 - s) for s in (0.4, 0.3)) - math.log(0.9) - math.log(0.8),
    "order": 0.0,
}


@pytest.mark.parametrize("score", BY_HAND)
def test_score_by_hand(score):
    normalized = normalized_scores(row(*SCORES), FOUR, normalization="none")
    options: dict[str, Any] = {"target": "distribution", "positive_weight": 3.0, "huber_delta": 0.15}
    loss = row_losses(normalized, MIDDLE, FOUR, score=score, **options)
    assert loss.item() == pytest.approx(BY_HAND[score], rel=1e-9)


def test_order_loss_by_hand():
    # the largest score outside is .4: (.1/.4 - 1)^2 + (.3/.4 - 1)^2
    assert order_loss(row(0.4, 0.1, 0.3, 0.2), MIDDLE, FOUR).item() == pytest.approx(0.5625 + 0.0625)
    # the first token is padding now, so the largest is .2: (.1/.2 - 1)^2 + 0
    mask = torch.tensor([[False, True, True, True]])
    assert order_loss(row(0.4, 0.1, 0.3, 0.2), MIDDLE, mask).item() == pytest.approx(0.25)


def test_order_loss_pulls_evidence_up_and_the_largest_other_token_down():
    scores = row(0.4, 0.1, 0.3, 0.2).requires_grad_()
    order_loss(scores, MIDDLE, FOUR).sum().backward()
    assert scores.grad is not None
    outside, first, second, other = scores.grad[0, 0].tolist()
    assert outside > 0 and first < 0 and second < 0 and other == 0


@pytest.mark.parametrize("score", BY_HAND)
@pytest.mark.parametrize("normalization", ["none", "softmax", "sum", "l2"])
def test_row_of_zeros_has_a_loss_and_a_gradient(score, normalization):
    scores = torch.zeros(1, 1, 4, requires_grad=True)
    normalized = normalized_scores(scores, FOUR, normalization=normalization, sign="absolute")
    loss = row_losses(normalized, MIDDLE, FOUR, score=score, target="distribution").sum()
    loss.backward()
    assert scores.grad is not None
    assert loss.isfinite() and scores.grad.isfinite().all()


def test_divergence_has_a_gradient_where_the_softmax_underflows():
    scores = row(1.0, 0.0, 0.0, 0.0).float().requires_grad_()  # e^-100 is 0 in float32
    normalized = normalized_scores(scores, FOUR, normalization="softmax", scaling=100)
    loss = row_losses(normalized, MIDDLE, FOUR, score="kl", target="distribution")
    loss.sum().backward()
    assert loss.item() == pytest.approx(100 - math.log(2), rel=1e-5)
    assert scores.grad is not None and scores.grad[0, 0].tolist() == pytest.approx([100, -50, -50, 0])


def test_half_precision_is_raised_to_float32():
    normalized = normalized_scores(row(*SCORES).bfloat16(), FOUR, normalization="softmax", scaling=100)
    assert normalized.values.dtype == torch.float32


def test_padding_takes_no_part():
    mask = torch.tensor([[True, True, True, False]])
    for normalization in ("softmax", "sum", "l2", "none"):
        normalized = normalized_scores(row(0.1, 0.4, 0.3, 9.0), mask, normalization=normalization)
        short = normalized_scores(row(0.1, 0.4, 0.3), mask[:, :3], normalization=normalization)
        assert torch.equal(normalized.values[..., :3], short.values) and normalized.values[0, 0, 3] == 0
        for score in ("mae", "kl", "bce"):
            padded = row_losses(normalized, MIDDLE, mask, score=score, target="distribution")
            alone = row_losses(short, MIDDLE[..., :3], mask[:, :3], score=score, target="distribution")
            assert torch.equal(padded, alone)
