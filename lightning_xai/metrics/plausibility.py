"""Agreement of attributions with evidence spans, with a threshold tuned on the validation split."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lightning_xai.functional.ranking import Ties, top_mask
from lightning_xai.functional.rationales import Match, align_rationale
from lightning_xai.functional.signs import Sign, with_sign
from lightning_xai.metrics.base import AttributionMetric, Explained, PredictOnce
from lightning_xai.types import Attribution, Batch

Spacing = Literal["linear", "log"]
Curve = Literal["trapezoid", "step"]

_EPSILON = 1e-11  # the authors' guard against division by zero and log of zero


def threshold_grid(num_points: int, maximum: float, spacing: Spacing = "linear") -> Tensor:
    """Returns ascending thresholds [G] in float64 from 0 to `maximum`; "log" spreads six decades below it after 0."""
    if spacing == "linear":
        return torch.from_numpy(np.linspace(0, maximum, num_points))
    return torch.from_numpy(np.concatenate([[0.0], maximum * np.logspace(-6, 0, num_points - 1)]))


def normalize(scores: Tensor, mask: Tensor) -> Tensor:
    """Returns non-negative scores [..., T] divided by their sum within `mask`, 0 outside of it."""
    scores = scores.double().masked_fill(~mask, 0)
    return scores / (scores.sum(dim=-1, keepdim=True) + _EPSILON)


def counts_above(scores: Tensor, weights: Tensor, thresholds: Tensor) -> Tensor:
    """Returns the summed weights [R, T] of the scores [R, T] strictly above each threshold: [R, G] float64."""
    exceeded = torch.bucketize(scores.contiguous(), thresholds)  # number of thresholds strictly below
    histogram = torch.zeros(len(scores), len(thresholds) + 1, dtype=torch.float64, device=scores.device)
    histogram.scatter_add_(1, exceeded, weights.double())
    return histogram.flip(1).cumsum(1).flip(1)[:, 1:]


def span_ids(evidence: Tensor) -> Tensor:
    """Returns [R, T] long: the place of each token's span among the maximal runs of evidence [R, T], T outside."""
    starts = evidence.clone()
    starts[:, 1:] &= ~evidence[:, :-1]
    return (starts.cumsum(dim=1) - 1).masked_fill(~evidence, evidence.shape[1])


def spans_above(scores: Tensor, evidence: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """Returns for each threshold the number of spans with a score above it, and these spans' tokens: [R, G] each.

    A span is a maximal run of evidence [R, T].
    """
    size = evidence.shape[1] + 1
    ids = span_ids(evidence)
    blank = torch.zeros(len(scores), size, dtype=torch.float64, device=scores.device)
    lengths = blank.scatter_add(1, ids, evidence.double())[:, :-1]
    peaks = (blank - 1).scatter_reduce(1, ids, scores, "amax")[:, :-1]  # [R, T], -1 where there is no such span
    return counts_above(peaks, lengths > 0, thresholds), counts_above(peaks, lengths, thresholds)


def uniform_kl(scores: Tensor, evidence: Tensor) -> Tensor:
    """Returns [R] in nats: the divergence of the uniform distribution over evidence [R, T] from normalized scores."""
    share = 1 / evidence.sum(dim=-1, keepdim=True).double()
    return (share * (share / (scores + _EPSILON)).log()).masked_fill(~evidence, 0).sum(dim=-1)


def overlap(first: Tensor, second: Tensor) -> Tensor:
    """Returns [R] in [0, 1]: intersection over union of token masks [R, T]."""
    return (first & second).sum(dim=-1).double() / (first | second).sum(dim=-1)


def precision_recall_f1(hits: Tensor, found: Tensor, gold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns precision (0 where nothing is found), recall and f1 from counts."""
    return hits / found.clamp(min=1), hits / gold, 2 * hits / (found + gold)


def pooled_area(hits: Tensor, found: Tensor, gold: Tensor, curve: Curve) -> Tensor:
    """Returns the area under the precision-recall curve of counts [G] at ascending thresholds.

    "trapezoid" joins the points, with precision 0 where nothing is found; "step" holds each precision back to the next
    lower recall, as average precision does.
    """
    precision, recall, _ = precision_recall_f1(hits.flip(0), found.flip(0), gold)
    if curve == "trapezoid":
        return torch.trapezoid(precision, recall)
    return (recall.diff(prepend=torch.zeros_like(recall[:1])) * precision).sum()


class EvidenceOverlap(AttributionMetric):
    """How attributions, as probability distributions over a text, agree with the evidence of the explained class.

    Precision, recall and f1 (micro) count tokens above a threshold that maximizes f1 on the validation split; so do
    empty (fraction of explanations without a token), span_recall (fraction of spans with a token found) and span_cover
    (found fraction of the tokens of these spans, 0 if none). auprc (pooled), iou of as many top tokens as there is
    evidence, kl in nats, and precision and recall of the top k need no threshold. Rows without evidence are skipped.

    Args:
        num_points: number of thresholds tried.
        maximum: the largest of them.
        spacing: of the thresholds from 0 to `maximum`.
        curve_points: number of thresholds from 0 to 1 that draw the precision-recall curve.
        curve: see `pooled_area`.
        threshold: used as it is instead of a tuned one.
        ks: numbers of top tokens.
        ties: which of two tokens with equal scores ranks higher.
        match: see `align_rationale`.
        sign: what becomes of the scores before they are divided by their sum.
        explained: see AttributionMetric.
        name: see AttributionMetric.

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, section 4.
    Differs: the published thresholds are 101 from 0 to 0.1 (which caps them) and the curve is a trapezoid on 101 from 0
        to 1 (preset edin_code); its tables exchange the columns of span_recall and span_cover.
    """

    def __init__(
        self,
        *,
        num_points: int = 301,
        maximum: float = 1.0,
        spacing: Spacing = "log",
        curve_points: int = 301,
        curve: Curve = "step",
        threshold: float | None = None,
        ks: list[int] = [5],  # noqa: B006  (never changed; jsonargparse shows it)
        ties: Ties = "first",
        match: Match = "class",
        sign: Sign = "absolute",
        explained: Explained = "all",
        name: str | None = None,
    ) -> None:
        super().__init__(explained=explained, name=name)
        if min(num_points, curve_points) < 2:
            raise ValueError(f"num_points is {num_points} and curve_points {curve_points}: give at least 2 of each")
        if not 0 < maximum <= 1:
            raise ValueError(f"maximum is {maximum}: give a threshold from 0 to 1, for scores of a text sum to 1")
        if min(ks, default=1) < 1:
            raise ValueError(f"ks are {ks}: give numbers of tokens from 1")
        if sign == "signed":
            raise ValueError("sign is signed, but scores divided by their sum must not be negative: choose absolute")
        self.grid = threshold_grid(num_points, maximum, spacing)
        if threshold is not None:
            self.grid = torch.tensor([threshold], dtype=torch.float64)
        self.curve_grid = threshold_grid(curve_points, 1.0, spacing)
        self.threshold, self.curve, self.ks, self.ties, self.match, self.sign = threshold, curve, ks, ties, match, sign
        self.needs_tuning = threshold is None
        self.sizes = {name: 1 for name in ("num_evidence", "num_spans", "iou", "kl", *(f"top_{k}" for k in ks))}
        self.sizes |= {name: len(self.grid) for name in ("hits", "found", "spans", "span_tokens")}
        self.sizes |= {name: len(self.curve_grid) for name in ("curve_hits", "curve_found")}
        self.columns = tuple(f"{name}_{place}" for name, size in self.sizes.items() for place in range(size))

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        shape = (*attribution.targets.shape, len(self.columns))
        records = torch.full(shape, torch.nan, dtype=torch.float64, device=attribution.scores.device)
        if batch.rationale is None:
            return records
        evidence = align_rationale(batch.rationale, attribution.targets, batch.labels, match=self.match)
        mask = attribution.token_mask.unsqueeze(1).expand_as(evidence)
        evidence = evidence & mask
        rows = evidence.any(dim=-1) & attribution.target_mask
        evidence, mask = evidence[rows], mask[rows]
        scores = normalize(with_sign(attribution.scores.double(), self.sign)[rows], mask)  # [R, T]
        count = evidence.sum(dim=-1)
        num_spans = span_ids(evidence).masked_fill(~evidence, -1).amax(dim=1) + 1 if len(count) else count
        scalars = [count, num_spans, overlap(top_mask(scores, mask, count, ties=self.ties), evidence)]
        scalars.append(uniform_kl(scores, evidence))
        for k in self.ks:
            top = top_mask(scores, mask, torch.full_like(count, k), ties=self.ties)
            scalars.append((top & evidence).sum(dim=-1))
        grid, curve_grid = self.grid.to(scores.device), self.curve_grid.to(scores.device)
        swept = [counts_above(scores, evidence, grid), counts_above(scores, mask, grid)]
        swept += spans_above(scores, evidence, grid)
        swept += [counts_above(scores, evidence, curve_grid), counts_above(scores, mask, curve_grid)]
        records[rows] = torch.cat([torch.stack([s.double() for s in scalars], dim=1), *swept], dim=1)
        return records

    def _parts(self, records: Tensor) -> dict[str, Tensor]:
        """Returns the records without undefined rows by what they hold, each [n, its size]."""
        defined = records[~records.isnan().any(dim=1)]
        return dict(zip(self.sizes, defined.split(list(self.sizes.values()), dim=1), strict=True))

    def tune(self) -> dict[str, float]:
        """Returns the first threshold of the grid with the best micro-f1.

        Raises:
            ValueError: no row has evidence.
        """
        parts = self._parts(self.table()[1])
        if not len(parts["hits"]):
            raise ValueError(f"{self.name} has no evidence to tune its threshold on: give threshold explicitly")
        _, _, f1 = precision_recall_f1(*(parts[name].sum(dim=0) for name in ("hits", "found", "num_evidence")))
        return {"threshold": float(self.grid[f1.argmax()])}

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        threshold = self.threshold if self.threshold is not None else self.tuned.get("threshold")
        if threshold is None:
            raise ValueError(f"{self.name} has no threshold: evaluate a validation split first, or give threshold")
        place = int((self.grid == threshold).nonzero())
        parts = self._parts(records)
        num_evidence = parts["num_evidence"].sum()
        hits, found, spans, span_tokens = (parts[n][:, place] for n in ("hits", "found", "spans", "span_tokens"))
        precision, recall, f1 = precision_recall_f1(hits.sum(), found.sum(), num_evidence)
        values = {
            "precision": precision,
            "recall": recall,
            "f1": f1,
            "auprc": pooled_area(parts["curve_hits"].sum(0), parts["curve_found"].sum(0), num_evidence, self.curve),
            "empty": (found == 0).double().mean(),
            "span_recall": (spans / parts["num_spans"][:, 0]).mean(),
            "span_cover": (hits / span_tokens.clamp(min=1)).mean(),
            "iou": parts["iou"].mean(),
            "kl": parts["kl"].mean(),
            "threshold": torch.tensor(threshold, dtype=torch.float64),
        }
        for k in self.ks:
            values[f"precision_at_{k}"] = parts[f"top_{k}"].sum() / (k * len(found))
            values[f"recall_at_{k}"] = parts[f"top_{k}"].sum() / num_evidence
        if not len(found):
            return {name: torch.full_like(value, torch.nan) for name, value in values.items()}
        return values
