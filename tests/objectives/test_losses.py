"""Losses against oracles and against torch's own."""

import math
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from lightning_xai.objectives.losses import (
    Reduction,
    evidence_divergences,
    evidence_weights,
    example_losses,
    mean_evidence_divergence,
    probability_distances,
)
from lightning_xai.objectives.terms.weights import weighted_mean


def evidence_loss(attention, evidence, pairs, *, reduction: Reduction, expected_weight: float | None = None):
    values = mean_evidence_divergence(attention, evidence, pairs, reduction=reduction)
    return weighted_mean(values, evidence_weights(evidence, pairs, reduction=reduction), expected_weight)


# oracle E9: logits of two codes over four tokens, evidence {0, 1} and {0}
ATTENTION = torch.tensor([[0.0, 0, 0, 0], [2.0, 0, 0, 0]], dtype=torch.float64).softmax(-1).unsqueeze(0)
EVIDENCE = torch.tensor([[[True, True, False, False], [True, False, False, False]]])
BOTH = torch.tensor([[True, True]])
FIRST = torch.tensor([[True, False]])


def test_divergence_of_each_code_is_that_of_oracle_e9():
    expected = torch.tensor([[0.693147, 0.340753]], dtype=torch.float64)
    assert torch.allclose(evidence_divergences(ATTENTION, EVIDENCE), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("pairs", "reduction", "expected"),
    [
        (FIRST, "per_code", 0.693147),
        (FIRST, "paper", 0.173287),
        (BOTH, "per_code", 0.516950),
        (BOTH, "paper", 0.129238),
    ],
)
def test_evidence_loss_is_that_of_oracle_e9(pairs, reduction, expected):
    loss = evidence_loss(ATTENTION, EVIDENCE, pairs, reduction=reduction)
    assert loss.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("reduction", "expected"), [("per_code", 1.016950), ("paper", 0.254238)])
def test_swapped_evidence_rows_give_the_misaligned_loss_of_oracle_e9(reduction, expected):
    loss = evidence_loss(ATTENTION, EVIDENCE.flip(1), BOTH, reduction=reduction)
    assert loss.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("reduction", ["per_code", "paper"])
def test_pairs_and_examples_without_evidence_do_not_change_the_loss(reduction):
    attention = ATTENTION.repeat(2, 1, 1)
    evidence = torch.cat([EVIDENCE, torch.zeros_like(EVIDENCE)])
    loss = evidence_loss(attention, evidence, BOTH.repeat(2, 1), reduction=reduction)
    assert loss == evidence_loss(ATTENTION, EVIDENCE, BOTH, reduction=reduction)


@pytest.mark.parametrize("reduction", ["per_code", "paper"])
def test_no_evidence_at_all_gives_zero_with_zero_gradient(reduction):
    attention = ATTENTION.clone().requires_grad_()
    loss = evidence_loss(attention, torch.zeros_like(EVIDENCE), BOTH, reduction=reduction)
    (gradient,) = torch.autograd.grad(loss, attention)
    assert loss == 0 and not gradient.any()


@pytest.mark.parametrize("reduction", ["per_code", "paper"])
@pytest.mark.parametrize("sizes", [[4, 4], [2, 2, 2, 2], [1] * 8])
def test_evidence_loss_with_an_expected_weight_is_the_mean_of_its_micro_batches(reduction: Reduction, sizes: list[int]):
    logits = torch.randn(8, 2, 4, dtype=torch.float64, requires_grad=True)
    evidence, pairs = torch.rand(8, 2, 4) > 0.6, torch.rand(8, 2) > 0.3
    evidence[:3] = False  # micro-batches have different numbers of examples with evidence
    weight = float(evidence_weights(evidence, pairs, reduction=reduction).mean())
    loss = partial(evidence_loss, reduction=reduction, expected_weight=weight)
    whole = loss(logits.softmax(-1), evidence, pairs)
    parts = zip(logits.split(sizes), evidence.split(sizes), pairs.split(sizes), strict=True)
    mean = torch.stack([loss(part.softmax(-1), e, p) for part, e, p in parts]).mean()
    assert torch.allclose(mean, whole)
    first, second = (torch.autograd.grad(value, logits, retain_graph=True)[0] for value in (mean, whole))
    assert torch.allclose(first, second)
    assert torch.allclose(whole, evidence_loss(logits.softmax(-1), evidence, pairs, reduction=reduction))


def test_attention_that_underflowed_gives_a_finite_loss_and_gradient():
    logits = torch.tensor([[[0.0, 200.0]]], requires_grad=True)
    loss = evidence_loss(logits.softmax(-1), torch.tensor([[[True, False]]]), FIRST[:, :1], reduction="per_code")
    loss.backward()
    assert logits.grad is not None and logits.grad.isfinite().all()
    assert 80 < loss.item() < 100


def test_divergence_vanishes_where_attention_is_uniform_over_evidence():
    attention = torch.tensor([[[0.5, 0.5, 0.0, 0.0]]], dtype=torch.float64)
    assert evidence_divergences(attention, EVIDENCE[:, :1]).item() == pytest.approx(0, abs=1e-12)


def test_classification_loss_is_cross_entropy_for_one_label_an_example():
    logits, labels = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 2, 1, 1])
    assert torch.allclose(example_losses(logits, labels).mean(), F.cross_entropy(logits, labels))


def test_classification_loss_is_binary_cross_entropy_over_all_classes_for_many_labels():
    logits, labels = torch.randn(4, 3, dtype=torch.float64), torch.randint(0, 2, (4, 3)).float()
    expected = F.binary_cross_entropy_with_logits(logits, labels.double())
    assert torch.allclose(example_losses(logits, labels).mean(), expected)


def test_an_examples_loss_is_the_loss_of_its_batch_of_one():
    logits, labels = torch.randn(4, 3), torch.randint(0, 2, (4, 3)).float()
    alone = torch.cat([example_losses(logits[i : i + 1], labels[i : i + 1]) for i in range(4)])
    assert torch.allclose(example_losses(logits, labels), alone)


def test_half_precision_logits_are_summed_in_float32():
    assert example_losses(torch.zeros(2, 3, dtype=torch.bfloat16), torch.tensor([0, 1])).dtype == torch.float32


def test_probability_distance_is_a_sum_over_classes():
    assert probability_distances(torch.tensor([[0.9, 0.2]]), torch.tensor([[0.8, 0.3]])).item() == pytest.approx(0.2)


def test_log_of_uniform_evidence_is_counted_in_nats():
    uniform = torch.full((1, 1, 8), 1 / 8)
    evidence = torch.zeros(1, 1, 8, dtype=torch.bool)
    evidence[..., 0] = True
    assert evidence_divergences(uniform, evidence).item() == pytest.approx(math.log(8))
