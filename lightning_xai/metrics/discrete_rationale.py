"""Agreement of the top tokens with a human rationale: as tokens, and as spans that overlap enough."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lightning_xai.functional.ranking import Rounding, percent_of, precision_recall_area, ranks
from lightning_xai.functional.rationales import Match, align_rationale
from lightning_xai.functional.signs import Sign, with_sign
from lightning_xai.functional.spans import runs_from_mask
from lightning_xai.metrics.base import AttributionMetric, Explained, PredictOnce
from lightning_xai.types import Attribution, Batch


def count_matches(predicted: np.ndarray, truth: np.ndarray, threshold: float = 0.5) -> int:
    """Returns how many predicted spans [P, 2] overlap a true one [Q, 2] enough.

    Spans are begin and exclusive end; enough is an intersection over union of `threshold` or more.
    """
    if not len(predicted) or not len(truth):
        return 0
    begin = np.maximum(predicted[:, None, 0], truth[None, :, 0])
    end = np.minimum(predicted[:, None, 1], truth[None, :, 1])
    shared = np.maximum(end - begin, 0)
    lengths = (predicted[:, 1] - predicted[:, 0])[:, None] + (truth[:, 1] - truth[:, 0])[None, :]
    return int(((shared / (lengths - shared)).max(axis=1) >= threshold).sum())


def harmonic(precision: Tensor, recall: Tensor) -> Tensor:
    """Returns f1 of precision and recall, 0 where both are."""
    total = precision + recall
    return 2 * precision * recall / total.masked_fill(total == 0, 1)


def micro_scores(matches: Tensor, predicted: Tensor, truth: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns precision, recall and f1 from counts [n] pooled over examples."""
    precision = matches.sum() / predicted.sum().clamp(min=1)
    recall = matches.sum() / truth.sum().clamp(min=1)
    return precision, recall, harmonic(precision, recall)


def macro_scores(matches: Tensor, predicted: Tensor, truth: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns precision averaged over examples that predict something, recall over those with truth, and their f1."""
    precision = (matches / predicted)[predicted > 0].mean()
    recall = (matches / truth)[truth > 0].mean()
    return precision, recall, harmonic(precision, recall)


class DiscreteRationale(AttributionMetric):
    """Top tokens as a discrete rationale: agreement of tokens, agreement of spans, and the area of the soft scores.

    iou_precision, iou_recall and iou_f1 are macro (see `macro_scores`); token_precision, token_recall and token_f1 are
    means over examples, token_micro_f1 is pooled; auprc is the trapezoid, mean over examples. Rows without evidence
    are skipped.

    Args:
        percentage: percent of a text's tokens that make the rationale; or
        count: their number. With neither, the percentage is the mean share of evidence in the validation split,
            in whole percent.
        rounding: of the percentage; at least one token is taken.
        overlap_threshold: intersection over union from which a span counts as found.
        match: see `align_rationale`.
        sign: what becomes of the scores before they are ranked.
        explained: see AttributionMetric.
        name: see AttributionMetric.

    Reference: DeYoung et al. (2020), "ERASER: A Benchmark to Evaluate Rationalized NLP Models", arXiv 1911.03429,
        section 4.1.
    """

    higher_is_better = True

    def __init__(
        self,
        *,
        percentage: float | None = None,
        count: int | None = None,
        rounding: Rounding = "ceil",
        overlap_threshold: float = 0.5,
        match: Match = "class",
        sign: Sign = "signed",
        explained: Explained = "all",
        name: str | None = None,
    ) -> None:
        super().__init__(explained=explained, name=name)
        if percentage is not None and count is not None:
            raise ValueError(f"percentage is {percentage} and count {count}: give one of the two, or neither to tune")
        if count is not None and count < 1:
            raise ValueError(f"count is {count}: give a number of tokens from 1")
        self.count, self.rounding, self.overlap_threshold = count, rounding, overlap_threshold
        self.match, self.sign = match, sign
        self.needs_tuning = percentage is None and count is None
        self.percentages = [percentage] if percentage is not None else list(range(1, 101)) if count is None else []
        for value in self.percentages:
            percent_of(torch.zeros(1), value)
        swept = len(self.percentages) or 1
        names = ("hits", "found", "matches", "found_spans")
        self.columns = ("auprc", "num_tokens", "num_evidence", "num_spans") + tuple(
            f"{name}_{place}" for name in names for place in range(swept)
        )

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        shape = (*attribution.targets.shape, len(self.columns))
        records = torch.full(shape, torch.nan, dtype=torch.float64)
        if batch.rationale is None:
            return records.to(attribution.scores.device)
        evidence = align_rationale(batch.rationale, attribution.targets, batch.labels, match=self.match)
        mask = attribution.token_mask.unsqueeze(1).expand_as(evidence)
        evidence = evidence & mask
        rows = evidence.any(dim=-1) & attribution.target_mask
        evidence, mask = evidence[rows].cpu(), mask[rows].cpu()
        scores = with_sign(attribution.scores.double(), self.sign)[rows].cpu()
        totals = mask.sum(dim=-1)
        if self.count is not None:
            sizes = totals.clamp(max=self.count).unsqueeze(1)
        else:
            options = {"rounding": self.rounding, "minimum": 1}
            sizes = torch.stack([percent_of(totals, p, **options) for p in self.percentages], dim=1)  # [R, G]
        token_rank = ranks(scores, mask)
        hits = torch.stack([((token_rank < size.unsqueeze(1)) & evidence).sum(-1) for size in sizes.T], dim=1)
        triples = zip(token_rank.numpy(), evidence.numpy(), sizes.tolist(), strict=True)
        counts = [self._count_spans(*triple) for triple in triples]
        spans = torch.tensor(counts).view(len(sizes), 3, sizes.shape[1])
        area = precision_recall_area(scores, evidence, mask)
        scalars = torch.stack([area, totals, evidence.sum(-1), spans[:, 2, 0]], dim=1)
        records[rows.cpu()] = torch.cat([scalars, hits, sizes, spans[:, 0], spans[:, 1]], dim=1)
        return records.to(attribution.scores.device)

    def _count_spans(self, token_rank: np.ndarray, evidence: np.ndarray, sizes: list[int]) -> list[list[int]]:
        """Returns matched, predicted and true spans of one row, a number for each of `sizes`."""
        truth = runs_from_mask(evidence)
        predicted = [runs_from_mask(token_rank < size) for size in sizes]
        matches = [count_matches(spans, truth, self.overlap_threshold) for spans in predicted]
        return [matches, [len(spans) for spans in predicted], [len(truth)] * len(sizes)]

    def tune(self) -> dict[str, float]:
        """Returns the mean share of evidence in whole percent, at least 1.

        Raises:
            ValueError: no row has evidence.
        """
        records = self.table()[1]
        share = (records[:, 2] / records[:, 1]).nanmean()
        if share.isnan():
            raise ValueError(f"{self.name} has no evidence to take a share from: give percentage or count explicitly")
        return {"percentage": float((100 * share).round().clamp(min=1))}

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        place = 0
        if self.needs_tuning:
            if "percentage" not in self.tuned:
                raise ValueError(f"{self.name} has no percentage: evaluate the validation split first, or give one")
            place = self.percentages.index(int(self.tuned["percentage"]))
        defined = records[~records.isnan().any(dim=1)]
        num_evidence, num_spans = defined[:, 2], defined[:, 3]
        hits, found, matches, found_spans = (part[:, place] for part in defined[:, 4:].chunk(4, dim=1))
        token_f1 = 2 * hits / (found + num_evidence)
        iou = macro_scores(matches, found_spans, num_spans)
        return {
            **dict(zip(("iou_precision", "iou_recall", "iou_f1"), iou, strict=True)),
            "token_precision": (hits / found).mean(),
            "token_recall": (hits / num_evidence).mean(),
            "token_f1": token_f1.mean(),
            "token_micro_f1": micro_scores(hits, found, num_evidence)[2] if len(hits) else torch.tensor(torch.nan),
            "auprc": defined[:, 0].mean(),
        }
