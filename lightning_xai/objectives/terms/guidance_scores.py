"""Losses of explanation guidance, which measure how far attribution scores differ from a rationale."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.functional.scores.aggregation import normalize, restrict

GuidanceLoss = Literal["mae", "mse", "huber", "kl", "bce", "order"]
Normalization = Literal["none", "softmax", "sum", "l2"]
GuidanceSign = Literal["keep", "absolute"]
Target = Literal["distribution", "binary"]

SMALLEST = 1e-12  # smallest argument of a logarithm; smaller values are replaced by it


class NormalizedScores(NamedTuple):
    """Normalized scores and their logarithms.

    Example:
        >>> NormalizedScores(torch.ones(1, 1, 1), torch.zeros(1, 1, 1)).values.item()
        1.0
    """

    values: Tensor  # [B, K, T] normalized scores, 0 at padding
    logs: Tensor  # [B, K, T] logarithms of the normalized scores, 0 at padding


def normalized_scores(
    scores: Tensor, mask: Tensor, *, normalization: Normalization, scaling: float = 1.0, sign: GuidanceSign = "keep"
) -> NormalizedScores:
    """Returns the scores of the tokens in `mask`, after `sign`, `scaling` and `normalization` in this order.

    If all scores of a text for a class are 0, they stay 0, except with "softmax". Scores in half precision are
    converted to float32.

    Args:
        scores: [B, K, T].
        mask: [B, T] bool, the tokens of a text.
        normalization: "softmax", "sum" (divides by the sum of magnitudes), "l2" (divides by the L2 norm) or "none".
        scaling: factor of the scores before the normalization.
        sign: "absolute" takes absolute scores, "keep" keeps their signs.

    Example:
        >>> mask = torch.ones(1, 4, dtype=torch.bool)
        >>> scores = torch.tensor([[[3.0, -4.0, 0.0, 0.0]]])
        >>> normalized_scores(scores, mask, normalization="l2", sign="absolute").values
        tensor([[[0.6000, 0.8000, 0.0000, 0.0000]]])
    """
    scores = restrict(scores if scores.dtype == torch.float64 else scores.float(), mask)
    scores = scaling * (scores.abs() if sign == "absolute" else scores)
    if normalization == "softmax":
        lowest = torch.finfo(scores.dtype).min
        logs = scores.masked_fill(~mask.unsqueeze(1), lowest).log_softmax(dim=-1)
        return NormalizedScores(restrict(logs.exp(), mask), restrict(logs, mask))
    if normalization == "sum":
        scores = normalize(scores, mask)
    elif normalization == "l2":
        norm = torch.linalg.vector_norm(scores, dim=-1, keepdim=True)  # if the norm is 0, its derivative is 0, not NaN
        scores = scores / norm.masked_fill(norm == 0, 1.0)
    return NormalizedScores(scores, restrict(scores.clamp_min(SMALLEST).log(), mask))


def rationale_target(evidence: Tensor, *, target: Target, dtype: torch.dtype = torch.float32) -> Tensor:
    """Returns the target scores [B, K, T] for given evidence tokens; 0 at other tokens.

    Args:
        evidence: [B, K, T] bool.
        target: the target of an evidence token: 1 for "binary", or 1 / (number of evidence tokens of this text and
            class) for "distribution".
        dtype: dtype of the result.

    Example:
        >>> rationale_target(torch.tensor([[[False, True, True, False]]]), target="distribution").tolist()
        [[[0.0, 0.5, 0.5, 0.0]]]
    """
    binary = evidence.to(dtype)
    if target == "binary":
        return binary
    return binary / binary.sum(dim=-1, keepdim=True).clamp_min(1)


def order_loss(scores: Tensor, evidence: Tensor, mask: Tensor) -> Tensor:
    """Returns the sum [B, K] over evidence tokens of (min(score / largest score outside the evidence, 1) - 1)^2.

    The sum is 0 if every evidence token scores at least as high as all tokens outside the evidence.

    Args:
        scores: [B, K, T], at least 0.
        evidence: [B, K, T] bool.
        mask: [B, T] bool, the tokens of a text.

    Example:
        >>> scores, evidence = torch.tensor([[[0.1, 0.4, 0.2]]]), torch.tensor([[[True, True, False]]])
        >>> order_loss(scores, evidence, torch.ones(1, 3, dtype=torch.bool)).item()
        0.25
    """
    outside = scores.masked_fill(evidence | ~mask.unsqueeze(1), 0.0).amax(dim=-1, keepdim=True)
    ratio = scores / outside.masked_fill(outside == 0, 1.0)
    errors = (ratio.clamp_max(1.0) - 1.0).square()
    return errors.masked_fill(~evidence | (outside == 0), 0.0).sum(dim=-1)


def row_losses(
    scores: NormalizedScores,
    evidence: Tensor,
    mask: Tensor,
    *,
    score: GuidanceLoss,
    target: Target,
    positive_weight: float = 1.0,
    huber_delta: float = 1.0,
) -> Tensor:
    """Returns [B, K]: the loss for each text and class, summed over the tokens of the text.

    Args:
        scores: normalized scores [B, K, T].
        evidence: [B, K, T] bool.
        mask: [B, T] bool, the tokens of a text.
        score: "mae", "mse", "huber", "bce", "kl" (target || scores, in nats) or "order".
        target: as in `rationale_target`; "order" has no target.
        positive_weight: factor of "bce" at evidence tokens.
        huber_delta: error up to which "huber" is quadratic.

    Example:
        >>> mask, evidence = torch.ones(1, 4, dtype=torch.bool), torch.tensor([[[False, True, True, False]]])
        >>> scores = normalized_scores(torch.tensor([[[0.1, 0.4, 0.3, 0.2]]]), mask, normalization="none")
        >>> row_losses(scores, evidence, mask, score="mae", target="distribution")  # .1 + .1 + .2 + .2
        tensor([[0.6000]])
    """
    values, logs = scores
    if score == "order":
        return order_loss(values, evidence, mask)
    wanted = rationale_target(evidence, target=target, dtype=values.dtype)
    if score == "mae":
        errors = (values - wanted).abs()
    elif score == "mse":
        errors = (values - wanted).square()
    elif score == "huber":
        errors = F.huber_loss(values, wanted, reduction="none", delta=huber_delta)
    elif score == "kl":
        errors = wanted * (wanted.clamp_min(SMALLEST).log() - logs)
    else:
        rest = torch.log1p(-values.clamp_max(1 - torch.finfo(values.dtype).eps))
        errors = -(positive_weight * wanted * logs + (1 - wanted) * rest)
    return restrict(errors, mask).sum(dim=-1)
