"""Metrics that measure how strongly scores concentrate on a few tokens, and how much special tokens contribute."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.metrics.evidence import evidence_cut_of, evidence_of
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.metrics.top_units import Counts, Percentages
from lightning_xai.types import Attribution, Batch

_EPSILON = 1e-11  # keeps the logarithm of 0 finite


def normalized_entropy(scores: Tensor, mask: Tensor) -> Tensor:
    """Returns [...] in [0, 1]: the entropy of normalized absolute scores, divided by the entropy of uniform scores.

    NaN for texts of one token and for scores that are all 0.

    Args:
        scores: [..., T]; their signs are ignored.
        mask: [..., T] bool, the tokens that count.

    Example:
        >>> mask = torch.ones(4, dtype=torch.bool)
        >>> float(normalized_entropy(torch.tensor([1.0, 1.0, 0.0, 0.0]), mask).round(decimals=6))  # log(2) / log(4)
        0.5
    """
    shares = _shares(scores, mask)
    entropy = -(shares * (shares + _EPSILON).log()).sum(dim=-1)
    largest = mask.sum(dim=-1).double().log()
    return entropy / largest.masked_fill(largest == 0, torch.nan)


def gini(scores: Tensor, mask: Tensor) -> Tensor:
    """Returns [...] in [0, 1): the Gini index of the absolute scores; 0 where all absolute scores are equal.

    NaN for scores that are all 0.

    Args:
        scores: [..., T]; their signs are ignored.
        mask: [..., T] bool, the tokens that count.

    Example:
        >>> float(gini(torch.tensor([0.0, 0.0, 0.0, -2.0]), torch.ones(4, dtype=torch.bool)))  # 1 - 1 / 4
        0.75
    """
    shares = _shares(scores, mask)
    num_tokens = mask.sum(dim=-1, keepdim=True)
    ascending = shares.masked_fill(~mask, torch.inf).sort(dim=-1).values
    places = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    weights = (2 * places - num_tokens - 1).double()
    inside = places <= num_tokens
    return (ascending.masked_fill(~inside, 0) * weights).sum(dim=-1) / num_tokens.squeeze(-1)


def mass_fraction(scores: Tensor, mask: Tensor, mass: float = 0.9) -> Tensor:
    """Returns [...] in (0, 1]: the smallest fraction of tokens that together have at least the given mass.

    The mass of tokens is the sum of their absolute scores, divided by the sum over all tokens. NaN for scores that are
    all 0.

    Args:
        scores: [..., T]; their signs are ignored.
        mask: [..., T] bool, the tokens that count.
        mass: the given mass, in (0, 1].

    Example:
        >>> float(mass_fraction(torch.tensor([6.0, -3.0, 1.0, 0.0]), torch.ones(4, dtype=torch.bool), mass=0.9))
        0.5
    """
    shares = _shares(scores, mask)
    held = shares.sort(dim=-1, descending=True).values.cumsum(dim=-1)
    # the tolerance is needed because rounding may put the sum of nine shares of 0.1 slightly below 0.9
    needed = (held < mass - 1e-9).sum(dim=-1) + 1
    return (needed.double() / mask.sum(dim=-1)).masked_fill(shares.isnan().any(dim=-1), torch.nan)


def top_shares(scores: Tensor, mask: Tensor, counts: Tensor) -> Tensor:
    """Returns [..., J] in [0, 1]: the sum of the k largest absolute scores, divided by the sum of all absolute scores.

    Both sums cover only scores in `mask`. There is one result for each of J numbers k. NaN for scores that are all 0.

    Args:
        scores: [..., T]; their signs are ignored.
        mask: [..., T] bool, the tokens that count.
        counts: [..., J] long, the numbers k; a number above T means all tokens.

    Example:
        >>> scores, mask = torch.tensor([4.0, -3.0, 1.0, 9.0]), torch.tensor([True, True, True, False])
        >>> top_shares(scores, mask, torch.tensor([0, 1, 2])).tolist()  # 0, 4 and 7 of 8
        [0.0, 0.5, 0.875]
    """
    held = _shares(scores, mask).sort(dim=-1, descending=True).values.cumsum(dim=-1)
    held = torch.cat([torch.zeros_like(held[..., :1]).where(~held[..., :1].isnan(), torch.nan), held], dim=-1)
    return held.gather(-1, counts.clamp(max=scores.shape[-1]).expand(*held.shape[:-1], -1))


def _shares(scores: Tensor, mask: Tensor) -> Tensor:
    """Returns the absolute scores within `mask`, divided by their sum, in float64; NaN where the sum is 0."""
    sizes = scores.double().abs().masked_fill(~mask, 0)
    total = sizes.sum(dim=-1, keepdim=True)
    return sizes / total.masked_fill(total == 0, torch.nan)


class Entropy(AttributionMetric):
    """Entropy of absolute scores, divided by the entropy of uniform scores; 0 if all scores but one are 0.

    Args:
        evidence_only: whether to skip explanations of classes that have no evidence in the text.
        **kwargs: see AttributionMetric.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[1.0, 1.0, 0.0, 0.0]]], inputs.token_mask)
        >>> metric = Entropy()
        >>> metric.update(attribution, Batch(inputs, torch.tensor([0])), predict=None)
        >>> round(float(metric.compute()["entropy"]), 6)  # log(2) / log(4)
        0.5

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958.
    """

    higher_is_better = False
    columns = ("",)

    def __init__(self, *, evidence_only: bool = False, **kwargs) -> None:
        super().__init__(**kwargs)
        self.evidence_only = evidence_only

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        entropy = normalized_entropy(attribution.scores, attribution.token_mask.unsqueeze(1))  # [B, K]
        if self.evidence_only:
            entropy = entropy.masked_fill(~evidence_of(attribution, batch).any(dim=-1), torch.nan)
        return entropy.unsqueeze(-1)

    def cut_rows(self, attribution: Attribution, batch: Batch) -> Tensor:
        return evidence_cut_of(attribution, batch) > 0 if self.evidence_only else super().cut_rows(attribution, batch)


class Sparsity(AttributionMetric):
    """Computes `gini` and `mass_fraction`, which measure how few tokens hold most of the sum of absolute scores.

    Args:
        mass: fraction of the sum of absolute scores, in (0, 1], that `mass_fraction` requires.
        **kwargs: see AttributionMetric.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[0.0, 0.0, 0.0, 2.0]]], inputs.token_mask)
        >>> metric = Sparsity()
        >>> metric.update(attribution, Batch(inputs, torch.tensor([0])), predict=None)
        >>> float(metric.compute()["sparsity/gini"]), float(metric.compute()["sparsity/mass_fraction"])
        (0.75, 0.25)

    Reference: Hurley and Rickard (2009), "Comparing Measures of Sparsity", arXiv 0811.4706, section II.
    """

    columns = ("gini", "mass_fraction")

    def __init__(self, *, mass: float = 0.9, **kwargs) -> None:
        super().__init__(**kwargs)
        if not 0 < mass <= 1:
            raise ValueError(f"mass is {mass}: give a fraction above 0 and at most 1")
        self.mass = mass

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        mask = attribution.token_mask.unsqueeze(1)
        values = gini(attribution.scores, mask), mass_fraction(attribution.scores, mask, self.mass)
        return torch.stack(values, dim=-1)


class TopShare(AttributionMetric):
    """Sum of the k largest absolute scores, divided by the sum of all absolute scores, for several numbers k.

    Args:
        sizes: the numbers k of tokens, as percentages of a text's tokens or as fixed counts.
        **kwargs: see AttributionMetric.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7]])
        >>> attribution = Attribution.of_scores([[[4.0, -3.0, 1.0]]], inputs.token_mask)
        >>> metric = TopShare(Counts([1, 2]), name="top")
        >>> metric.update(attribution, Batch(inputs, torch.tensor([0])), predict=None)
        >>> float(metric.compute()["top/1"]), float(metric.compute()["top/2"])
        (0.5, 0.875)

    Reference: Madsen et al. (2022), "Evaluating the Faithfulness of Importance Measures in NLP by Recursively Masking
        Allegedly Important Tokens and Retraining", arXiv 2110.08412, Appendix E.
    """

    def __init__(self, sizes: Percentages | Counts, **kwargs) -> None:
        super().__init__(**kwargs)
        self.sizes = sizes
        self.columns = sizes.names

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        mask = attribution.token_mask
        counts = self.sizes.of(mask.sum(dim=1))
        return top_shares(attribution.scores, mask.unsqueeze(1), counts.unsqueeze(1))  # [B, K, J]


class SpecialTokenShare(AttributionMetric):
    """Sum of the absolute scores of special tokens, as a fraction in [0, 1] of the sum of all absolute scores.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[1, 5, 6]], special_ids=[1])
        >>> attribution = Attribution.of_scores([[[3.0, 2.0, -1.0]]], inputs.token_mask)
        >>> metric = SpecialTokenShare()
        >>> metric.update(attribution, Batch(inputs, torch.tensor([0])), predict=None)
        >>> float(metric.compute()["special_token_share"])
        0.5
    """

    columns = ("",)

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        inputs = batch.inputs
        shares = _shares(attribution.scores, inputs.attention_mask.unsqueeze(1))
        special = inputs.special_tokens_mask & inputs.attention_mask
        return (shares * special.unsqueeze(1)).sum(dim=-1, keepdim=True)
