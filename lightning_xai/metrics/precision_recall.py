"""Counts of tokens and spans whose scores exceed thresholds, and the area under the precision-recall curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.metrics.thresholds import Spacing, threshold_grid

Area = Literal["trapezoid", "step"]


def counts_above(scores: Tensor, weights: Tensor, thresholds: Tensor) -> Tensor:
    """Returns [R, G] float64: for each row and each of G thresholds, the total weight of scores above the threshold.

    `scores` and `weights` are [R, T], with one weight for each score.

    Example:
        >>> counts_above(torch.tensor([[0.2, 0.5, 0.9]]), torch.ones(1, 3), torch.tensor([0.1, 0.5])).tolist()
        [[3.0, 1.0]]
    """
    exceeded = torch.bucketize(scores.contiguous(), thresholds)  # number of thresholds strictly below each score
    histogram = torch.zeros(len(scores), len(thresholds) + 1, dtype=torch.float64, device=scores.device)
    histogram.scatter_add_(1, exceeded, weights.double())
    return histogram.flip(1).cumsum(1).flip(1)[:, 1:]


def span_ids(evidence: Tensor) -> Tensor:
    """Returns [R, T] long: for each token, the index of the span that contains it; T for tokens outside of spans.

    A span is a maximal run of True in `evidence` [R, T]. The spans of each row are counted from 0.

    Example:
        >>> span_ids(torch.tensor([[True, False, True, True]])).tolist()
        [[0, 4, 1, 1]]
    """
    starts = evidence.clone()
    starts[:, 1:] &= ~evidence[:, :-1]
    return (starts.cumsum(dim=1) - 1).masked_fill(~evidence, evidence.shape[1])


def spans_above(scores: Tensor, evidence: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """Returns how many spans have a score above each of G thresholds, and how many tokens these spans have.

    Both results are [R, G]. A span is a maximal run of True in `evidence` [R, T]. Its score is the largest of its
    tokens' scores.

    Example:
        >>> scores, evidence = torch.tensor([[0.9, 0.0, 0.1, 0.4]]).double(), torch.tensor([[True, False, True, True]])
        >>> num_spans, num_tokens = spans_above(scores, evidence, torch.tensor([0.3, 0.5]).double())
        >>> num_spans.tolist(), num_tokens.tolist()
        ([[2.0, 1.0]], [[3.0, 1.0]])
    """
    width = evidence.shape[1] + 1
    ids = span_ids(evidence)
    zeros = torch.zeros(len(scores), width, dtype=torch.float64, device=scores.device)
    lengths = zeros.scatter_add(1, ids, evidence.double())[:, :-1]
    # [R, T]; column i holds the largest score in a row's span i, or -1 if the row has no span i
    peaks = (zeros - 1).scatter_reduce(1, ids, scores, "amax")[:, :-1]
    return counts_above(peaks, lengths > 0, thresholds), counts_above(peaks, lengths, thresholds)


def precision_recall_f1(num_hits: Tensor, num_selected: Tensor, num_evidence: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns precision (0 where nothing is selected), recall and f1 from counts.

    Example:
        >>> [float(value) for value in precision_recall_f1(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(2.0))]
        [0.5, 0.5, 0.5]
    """
    return num_hits / num_selected.clamp(min=1), num_hits / num_evidence, 2 * num_hits / (num_selected + num_evidence)


def pooled_area(num_hits: Tensor, num_selected: Tensor, num_evidence: Tensor, area: Area) -> Tensor:
    """Returns the area under the precision-recall curve from counts [G] at G ascending thresholds.

    Args:
        num_hits: [G] number of evidence tokens above each threshold.
        num_selected: [G] number of tokens above each threshold.
        num_evidence: number of all evidence tokens.
        area: "trapezoid" joins the points by lines, with precision 0 where nothing is selected. "step" is the sum over
            all points of precision times the increase in recall since the previous point, like average precision.

    Example:
        >>> counts = torch.tensor([2.0, 1.0]), torch.tensor([4.0, 1.0]), torch.tensor(2.0)
        >>> float(pooled_area(*counts, "step"))  # precision 1 for the first half of recall, then 1/2
        0.75
    """
    precision, recall, _ = precision_recall_f1(num_hits.flip(0), num_selected.flip(0), num_evidence)
    if area == "trapezoid":
        return torch.trapezoid(precision, recall)
    return (recall.diff(prepend=torch.zeros_like(recall[:1])) * precision).sum()


@dataclass(frozen=True)
class PrecisionRecallCurve:
    """The thresholds of a precision-recall curve, and the rule for the area under the curve.

    Args:
        num_points: number of thresholds from 0 to 1.
        spacing: spacing of the thresholds; `threshold_grid` describes the options.
        area: rule for the area; `pooled_area` describes the options.

    Example:
        >>> PrecisionRecallCurve(num_points=3, spacing="linear").thresholds.tolist()
        [0.0, 0.5, 1.0]
    """

    num_points: int = 301
    spacing: Spacing = "log"
    area: Area = "step"

    def __post_init__(self) -> None:
        if self.num_points < 2:
            raise ValueError(f"num_points is {self.num_points}: give at least 2")

    @property
    def thresholds(self) -> Tensor:
        """[G] float64, ascending from 0 to 1."""
        return threshold_grid(self.num_points, 1.0, self.spacing)
