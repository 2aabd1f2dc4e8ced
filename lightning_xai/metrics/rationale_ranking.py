"""Metrics that are high if an attribution ranks the tokens of a human rationale before the other tokens."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lightning_xai.functional.scores.ranking import auroc, average_precision, top_mask
from lightning_xai.metrics.base import with_special_tokens
from lightning_xai.metrics.evidence import EvidenceMetric
from lightning_xai.types import Attribution, Batch


def recall_at_annotated(scores: Tensor, evidence: Tensor, mask: Tensor) -> Tensor:
    """Returns [...] float64 in [0, 1]: the fraction of the n evidence tokens that are among the n top tokens.

    Args:
        scores: [..., T].
        evidence: [..., T] bool, True for the n evidence tokens.
        mask: [..., T] bool, the tokens that are ranked.

    Example:
        >>> scores, evidence = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([True, False, True, False])
        >>> float(recall_at_annotated(scores, evidence, torch.ones(4, dtype=torch.bool)))  # 1 of 2
        0.5
    """
    num_evidence = evidence.sum(dim=-1)
    return (top_mask(scores, mask, num_evidence) & evidence).sum(dim=-1).double() / num_evidence


class RationaleRanking(EvidenceMetric):
    """AUROC, average precision, and recall at the number of evidence tokens, each averaged over examples.

    Rows without evidence are skipped. AUROC is undefined for a row in which every token is evidence, so the mean AUROC
    leaves out such rows.

    Args:
        rank_special: whether special tokens are ranked, too; they count as tokens that are not evidence.
        **kwargs: see EvidenceMetric.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[4.0, 3.0, 2.0, 1.0]]], inputs.token_mask)
        >>> rationale = Attribution.of_scores([[[1.0, 0.0, 1.0, 0.0]]], inputs.token_mask)
        >>> metric = RationaleRanking(name="r")
        >>> metric.update(attribution, Batch(inputs, torch.tensor([0]), rationale), predict=None)
        >>> values = metric.compute()  # evidence outranks other tokens in 3 of 4 pairs; half of the top 2 is evidence
        >>> float(values["r/auroc"]), float(values["r/recall_at_annotated"])
        (0.75, 0.5)

    Reference: Ferreira et al. (2024), "Explanation Regularisation through the Lens of Attributions", arXiv 2407.16693,
        section 3.
    """

    higher_is_better = True
    columns = ("auroc", "average_precision", "recall_at_annotated")

    def __init__(self, *, rank_special: bool = False, **kwargs) -> None:
        super().__init__(**kwargs)
        self.rank_special = rank_special

    def considered(self, attribution: Attribution, batch: Batch) -> Tensor:
        if not self.rank_special:
            return attribution.token_mask
        return with_special_tokens(replace(batch.inputs, token_mask=attribution.token_mask))

    def compare(self, scores: Tensor, evidence: Tensor, mask: Tensor) -> Tensor:
        functions = (auroc, average_precision, recall_at_annotated)
        return torch.stack([function(scores, evidence, mask) for function in functions], dim=-1)
