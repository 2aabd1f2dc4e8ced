"""Losses that several objectives minimize."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Reduction = Literal["per_code", "paper"]


def example_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns each example's cross-entropy [B] in nats; in multi-label data, the mean of its C binary cross-entropies.

    Example:
        >>> example_losses(torch.zeros(1, 4), torch.tensor([[1.0, 0.0, 1.0, 0.0]]))  # log 2
        tensor([0.6931])
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if labels.dim() == 1:
        return F.cross_entropy(logits, labels, reduction="none")
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none").mean(dim=1)


def probability_distances(probs: Tensor, reference: Tensor) -> Tensor:
    """Returns, for each example, the L1 distance [B] between its probabilities in `probs` and `reference`, both [B, C].

    Example:
        >>> probability_distances(torch.tensor([[0.75, 0.25]]), torch.tensor([[0.5, 0.5]]))
        tensor([0.5000])
    """
    return (probs - reference).abs().sum(dim=1)


def evidence_divergences(attention: Tensor, evidence: Tensor) -> Tensor:
    """Returns KL(uniform over evidence tokens || attention) [B, K] in nats; 0 for classes without evidence.

    Args:
        attention: [B, K, T] probabilities over T.
        evidence: [B, K, T] bool, True at evidence tokens.

    Example:
        >>> evidence = torch.tensor([[[True, True, False, False]]])
        >>> evidence_divergences(torch.full((1, 1, 4), 0.25), evidence)  # log 2
        tensor([[0.6931]])
    """
    attention = attention if attention.dtype == torch.float64 else attention.float()
    # the clamp only affects softmax weights that underflowed to (almost) 0, which have no gradient anyway
    logs = attention.clamp_min(torch.finfo(torch.float32).tiny).log().masked_fill(~evidence, 0.0)
    num_tokens = evidence.sum(dim=-1).clamp_min(1).to(logs.dtype)
    divergences = -logs.sum(dim=-1) / num_tokens - num_tokens.log()
    return divergences.masked_fill(~evidence.any(dim=-1), 0.0)


def evidence_weights(evidence: Tensor, pair_mask: Tensor, *, reduction: Reduction) -> Tensor:
    """Returns the weight [B] of each example in a mean over examples.

    Args:
        evidence: [B, K, T] bool, the evidence tokens of each pair (example, class).
        pair_mask: [B, K] bool, the pairs that count. Pairs without evidence never count.
        reduction: with "per_code", the weight is the number of the example's pairs that count. With "paper", the weight
            is 1 if at least one pair counts, and otherwise 0.

    Example:
        >>> evidence, pairs = torch.tensor([[[True], [True]], [[False], [False]]]), torch.ones(2, 2, dtype=torch.bool)
        >>> evidence_weights(evidence, pairs, reduction="per_code").tolist()
        [2.0, 0.0]
        >>> evidence_weights(evidence, pairs, reduction="paper").tolist()
        [1.0, 0.0]
    """
    num_pairs = (pair_mask & evidence.any(dim=-1)).sum(dim=-1)
    return (num_pairs if reduction == "per_code" else num_pairs > 0).float()


def mean_evidence_divergence(attention: Tensor, evidence: Tensor, pair_mask: Tensor, *, reduction: Reduction) -> Tensor:
    """Returns [B] in nats: for each example, the mean of `evidence_divergences` over its classes in `pair_mask`.

    Args:
        attention: [B, K, T] probabilities over T.
        evidence: [B, K, T] bool, the evidence tokens of each pair (example, class).
        pair_mask: [B, K] bool, the pairs that count. Pairs without evidence never count.
        reduction: "per_code" is the mean over the pairs that count. "paper" divides this mean by T, the padded length.

    Example:
        >>> attention, evidence = torch.full((1, 1, 4), 0.25), torch.tensor([[[True, True, False, False]]])
        >>> mean_evidence_divergence(attention, evidence, torch.tensor([[True]]), reduction="per_code")  # log 2
        tensor([0.6931])
        >>> mean_evidence_divergence(attention, evidence, torch.tensor([[True]]), reduction="paper")  # log(2) / 4
        tensor([0.1733])
    """
    pair_mask = pair_mask & evidence.any(dim=-1)
    divergences = evidence_divergences(attention, evidence).masked_fill(~pair_mask, 0.0)
    means = divergences.sum(dim=-1) / pair_mask.sum(dim=-1).clamp_min(1)
    return means / attention.shape[-1] if reduction == "paper" else means
