"""How highly attributions rank the tokens of a human rationale, example by example."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lightning_xai.functional.ranking import auroc, average_precision, top_mask
from lightning_xai.functional.rationales import Match, align_rationale
from lightning_xai.functional.signs import Sign, with_sign
from lightning_xai.metrics.base import AttributionMetric, Explained, PredictOnce, with_special_tokens
from lightning_xai.types import Attribution, Batch


def recall_at_annotated(scores: Tensor, evidence: Tensor, mask: Tensor) -> Tensor:
    """Returns [...] float64: the found fraction of n evidence tokens among the n top tokens of `mask` [..., T]."""
    count = evidence.sum(dim=-1)
    return (top_mask(scores, mask, count) & evidence).sum(dim=-1).double() / count


class RationaleRanking(AttributionMetric):
    """AUROC, average precision and recall among as many top tokens as are annotated; means over examples.

    Rows without evidence are skipped; where every token is evidence, AUROC alone is undefined.

    Args:
        include_special: special tokens take part, as tokens without evidence.
        match: see `align_rationale`.
        sign: what becomes of the scores before they are ranked.
        explained: see AttributionMetric.
        name: see AttributionMetric.

    Reference: Ferreira et al. (2024), "Explanation Regularisation through the Lens of Attributions", arXiv 2407.16693,
        section 3.
    """

    higher_is_better = True
    columns = ("auroc", "average_precision", "recall_at_annotated")

    def __init__(
        self,
        *,
        include_special: bool = False,
        match: Match = "class",
        sign: Sign = "signed",
        explained: Explained = "all",
        name: str | None = None,
    ) -> None:
        super().__init__(explained=explained, name=name)
        self.include_special, self.match, self.sign = include_special, match, sign

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        shape = (*attribution.targets.shape, len(self.columns))
        records = torch.full(shape, torch.nan, dtype=torch.float64, device=attribution.scores.device)
        if batch.rationale is None:
            return records
        evidence = align_rationale(batch.rationale, attribution.targets, batch.labels, match=self.match)
        evidence = evidence & attribution.token_mask.unsqueeze(1)
        considered = attribution.token_mask
        if self.include_special:
            considered = with_special_tokens(replace(batch.inputs, token_mask=considered))
        rows = evidence.any(dim=-1) & attribution.target_mask
        mask = considered.unsqueeze(1).expand_as(evidence)[rows]
        scores, evidence = with_sign(attribution.scores.double(), self.sign)[rows], evidence[rows]
        measures = (auroc, average_precision, recall_at_annotated)
        records[rows] = torch.stack([measure(scores, evidence, mask) for measure in measures], dim=-1)
        return records
