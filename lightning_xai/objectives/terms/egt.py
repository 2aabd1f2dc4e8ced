"""Explanation guided training: trains attention to agree with an attribution, even if unimportant words are masked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.attention import token_attention
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.targets import gold_targets
from lightning_xai.functional.erasure.units import count_units, kept_tokens, unit_ids
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.objectives.terms.base import CleanPass, Task, Term, TermValue
from lightning_xai.objectives.terms.weights import Weight
from lightning_xai.types import Batch

EGTDirection = Literal["attention_first", "scores_first"]
SMOOTHING = 1e-9


def smoothed(scores: Tensor, mask: Tensor) -> Tensor:
    """Returns scores [B, K, T] plus 1e-9, divided by their sum over `mask` [B, T]; 0 outside the mask.

    Example:
        >>> smoothed(torch.tensor([[[3.0, 1.0, 9.0]]]), torch.tensor([[True, True, False]]))
        tensor([[[0.7500, 0.2500, 0.0000]]])
    """
    dtype = torch.promote_types(scores.dtype, torch.float32)
    kept = (scores.to(dtype) + SMOOTHING) * mask.unsqueeze(1)
    return kept / kept.sum(dim=-1, keepdim=True).clamp_min(SMOOTHING)


def divergences(first: Tensor, second: Tensor, mask: Tensor) -> Tensor:
    """Returns KL(first || second) [B, K] in nats over the tokens of `mask` [B, T].

    Args:
        first, second: [B, K, T] distributions over the tokens of `mask`, where they must be above 0.
        mask: [B, T] bool.

    Example:
        >>> mask = torch.tensor([[True, True]])
        >>> divergences(torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[0.25, 0.75]]]), mask)
        tensor([[0.1438]])
    """
    keep = mask.unsqueeze(1)
    ratio = first.where(keep, 1.0).log() - second.where(keep, 1.0).log()
    return (first * ratio).sum(dim=-1)


def lowest_words(scores: Tensor, units: Tensor, fraction: float) -> Tensor:
    """Returns [B, T] bool: True at the tokens of the words with the lowest scores.

    The number of these words is ceil(fraction * number of words). A word's score is the sum over its tokens. If words
    have equal scores, the earlier words are chosen.

    Args:
        scores: [B, T].
        units: [B, T] long, index of the word that each token belongs to; -1 for tokens that belong to no word.
        fraction: fraction of the words that are chosen.

    Example:
        >>> scores, units = torch.tensor([[9.0, 1.0, 1.0, 3.0, 0.5]]), torch.tensor([[-1, 0, 0, 1, 2]])
        >>> lowest_words(scores, units, 0.4).tolist()  # 2 of 3 words
        [[False, True, True, False, True]]
    """
    counts = count_units(units)
    width = int(counts.max()) if len(counts) else 0
    if not width:
        return torch.zeros_like(units, dtype=torch.bool)
    sums = torch.zeros(len(units), width + 1, dtype=torch.float64, device=units.device)
    sums.scatter_add_(1, units.clamp(min=-1) + 1, scores.double())
    words = sums[:, 1:]
    absent = torch.arange(width, device=units.device) >= counts.unsqueeze(1)
    ranks = words.masked_fill(absent, torch.inf).argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    # without 1e-9, a product such as 0.07 * 100 = 7.000000000000001 would be rounded up to 8
    chosen = ranks < (fraction * counts.double() - 1e-9).ceil().unsqueeze(1)
    rows = [kept_tokens(row, pick.unsqueeze(0))[0] for row, pick in zip(units, chosen, strict=True)]
    return torch.stack(rows) & (units >= 0)


class EGT(Term):
    """The sum of KL(attention || attribution) for the input and for the input without its least important words.

    An attribution method scores the tokens for the gold class, in eval mode and without an autograd graph. The absolute
    scores are divided by their sum over the explainable tokens. If the classification head attends to tokens,
    its attention for the gold class is compared with the scores. Otherwise, the attention of the last layer, averaged
    over attention heads, is compared with the scores. Both divergences use the scores for the whole input. With several
    gold classes, the value is the mean over these classes, and the least important words are those with the lowest sum
    of scores over these classes.

    Args:
        method: the attribution method. The paper compares Gradient, InputXGradient, DeepLift and IntegratedGradients,
            with pooling over embedding dimensions by mean or by L2 norm.
        weight: factor of the sum of both divergences (lambda_4 in the paper), as in `Term`.
        masked_fraction: the fill token replaces this fraction of the words (K in the paper), those with the lowest
            scores.
        direction: "attention_first" for KL(attention || scores), "scores_first" for KL(scores || attention).
        **kwargs: arguments of `Term`.

    Raises:
        ValueError: `masked_fraction` is not between 0 and 1.

    Example:
        >>> from lightning_xai.attributions.input_x_gradient import InputXGradient
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.types import Batch, TextInputs
        >>> objective = Supervised(random_bert(), terms={"egt": EGT(InputXGradient())})
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 7, 2]], special_ids=[1, 2])
        >>> bool(objective.losses(Batch(inputs, torch.tensor([0])))["egt"] > 0)
        True

    Reference: Li et al. (2023), "Towards Faithful Explanations for Text Classification with Robustness Improvement and
        Explanation Guided Training", arXiv 2312.17591, Section 3.3 and equation 7.
    """

    def __init__(
        self,
        method: AttributionMethod,
        weight: Weight = 0.01,
        masked_fraction: float = 0.15,
        direction: EGTDirection = "attention_first",
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, **kwargs)
        require_choices({"direction": EGTDirection}, {"direction": direction})
        if not 0 < masked_fraction < 1:
            raise ValueError(f"masked_fraction is {masked_fraction}: give a fraction between 0 and 1")
        self.method = method
        self.masked_fraction = masked_fraction
        self.direction: EGTDirection = direction

    def needs(self, network: Classifier) -> Needs:
        return Needs(attentions=not network.readout_is_attention or self.method.needs_attentions)

    def passes(self, num_tokens: int) -> float:
        made = self.method.passes(num_tokens, 1)
        return float(made.forward + made.backward) + 3.0  # + 3: the masked input's forward (1) and backward pass (2)

    def example_weights(self, batch: Batch) -> Tensor:
        return gold_targets(batch.labels)[1].any(dim=1).float()

    def prepare(self, task: Task) -> Tensor:
        """Returns the normalized scores [B, K, T] for up to K gold classes; 0 where a text has fewer gold classes."""
        inputs, (targets, gold) = task.batch.inputs, gold_targets(task.batch.labels)
        scores = self.method.attribute(task.network, inputs, targets, gold).scores
        return smoothed(scores.abs(), inputs.token_mask) * gold.unsqueeze(-1)

    def value(self, clean: CleanPass, prepared: Tensor) -> TermValue:
        inputs, mask, (targets, gold) = clean.inputs, clean.inputs.token_mask, gold_targets(clean.task.batch.labels)
        reads_tokens = clean.network.readout_is_attention
        masked = lowest_words(prepared.sum(dim=1), unit_ids(mask, inputs.word_ids), self.masked_fraction)
        fewer = replace(inputs, input_ids=torch.where(masked, inputs.baseline_ids, inputs.input_ids))
        outputs = (clean.output, clean.again(fewer, output_attentions=not reads_tokens))
        attentions = [
            smoothed(token_attention(output, targets, readout_is_attention=reads_tokens), mask) for output in outputs
        ]
        scores = prepared.to(attentions[0].dtype)
        pairs = [(attention, scores) for attention in attentions]
        if self.direction == "scores_first":
            pairs = [(scores, attention) for attention in attentions]
        total = torch.stack([divergences(first, second, mask) for first, second in pairs]).sum(dim=0)  # [B, K]
        values = total.masked_fill(~gold, 0.0).sum(dim=1) / gold.sum(dim=1).clamp_min(1)
        return TermValue(values, {"masked_fraction": masked.sum() / mask.sum().clamp_min(1)})
