"""The base class of metrics that compare attributions with human evidence."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from lightning_xai.functional.classes.targets import gold_classes
from lightning_xai.functional.scores.rationales import Match, align_rationale
from lightning_xai.functional.scores.signs import Sign, with_sign
from lightning_xai.metrics.base import AttributionMetric, Explained
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.types import Attribution, Batch


def evidence_of(attribution: Attribution, batch: Batch, *, match: Match = "class") -> Tensor:
    """Returns [B, K, T] bool: True for tokens that may be explained and are evidence for the explained class.

    All values are False for a batch without rationales.

    Args:
        attribution: gives the explained classes and the tokens that may be explained.
        batch: gives the rationales and the labels.
        match: which rationales count as evidence for a class; `align_rationale` describes the options.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[1, 5, 6]], special_ids=[1])
        >>> attribution = Attribution.of_scores([[[0.0, 2.0, 1.0]]], inputs.token_mask)
        >>> rationale = Attribution.of_scores([[[1.0, 0.0, 1.0]]], inputs.token_mask)  # marks the special token as well
        >>> evidence_of(attribution, Batch(inputs, torch.tensor([0]), rationale)).tolist()
        [[[False, False, True]]]
    """
    if batch.rationale is None:
        return torch.zeros_like(attribution.scores, dtype=torch.bool)
    evidence = align_rationale(batch.rationale, attribution.targets, batch.labels, match=match)
    return evidence & attribution.token_mask.unsqueeze(1)


def evidence_cut_of(attribution: Attribution, batch: Batch, *, match: Match = "class") -> Tensor:
    """Returns [B, K] int: the number of evidence tokens that truncation cut off from each row (example, class).

    The number is 0 for rows that still have evidence. The arguments are the same as in `evidence_of`.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs, cut = TextInputs.of_ids([[5, 6]]), torch.tensor([[0, 3]])
        >>> nothing = Attribution.of_scores([[[0.0, 0.0]]], inputs.token_mask)
        >>> attribution = Attribution.of_scores([[[2.0, 1.0], [0.0, 3.0]]], inputs.token_mask)
        >>> evidence_cut_of(attribution, Batch(inputs, torch.tensor([0]), nothing, evidence_cut=cut)).tolist()
        [[0, 3]]
    """
    cut = batch.evidence_cut
    if cut is None:
        return torch.zeros_like(attribution.targets)
    if match == "class":
        rows = cut.gather(1, attribution.targets)
    else:
        if match == "gold":
            cut = cut * gold_classes(batch.labels, cut.shape[1])
        rows = cut.sum(dim=1, keepdim=True).expand_as(attribution.targets)
    return rows.masked_fill(evidence_of(attribution, batch, match=match).any(dim=-1), 0)


class EvidenceMetric(AttributionMetric):
    """Base class of metrics that compare scores with evidence in each row (example, class).

    Rows without evidence are skipped. `compute` returns, as `num_evidence_cut`, the number of skipped rows that lost
    all their evidence to truncation.

    Args:
        match: which rationales count as evidence for a class; `align_rationale` describes the options.
        sign: sign of the scores that are compared; `with_sign` describes the options.
        explained: see AttributionMetric.
        name: see AttributionMetric.

    Example:
        A subclass returns the records of R rows from their scores and their evidence.

        >>> class EvidenceShare(EvidenceMetric):
        ...     columns = ("",)
        ...
        ...     def compare(self, scores, evidence, mask):
        ...         return (scores * evidence).sum(dim=1, keepdim=True) / (scores * mask).sum(dim=1, keepdim=True)
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7]])
        >>> attribution = Attribution.of_scores([[[3.0, 0.0, 1.0]]], inputs.token_mask)
        >>> rationale = Attribution.of_scores([[[1.0, 1.0, 0.0]]], inputs.token_mask)
        >>> metric = EvidenceShare()
        >>> metric.update(attribution, Batch(inputs, torch.tensor([0]), rationale), predict=None)
        >>> float(metric.compute()["evidence_share"])  # evidence holds 3 of 4
        0.75
    """

    reads_rationales = True

    def __init__(
        self,
        *,
        match: Match = "class",
        sign: Sign = "signed",
        explained: Explained = "all",
        name: str | None = None,
    ) -> None:
        super().__init__(explained=explained, name=name)
        self.match, self.sign = match, sign

    @abstractmethod
    def compare(self, scores: Tensor, evidence: Tensor, mask: Tensor) -> Tensor:
        """Returns the values [R, num_compared] that the metric measures for R rows (example, class) with evidence.

        Args:
            scores: [R, T] float64, after `sign` was applied.
            evidence: [R, T] bool, True for the evidence tokens, at least one in each row.
            mask: [R, T] bool, True for the tokens that are compared.
        """

    def cut_rows(self, attribution: Attribution, batch: Batch) -> Tensor:
        return evidence_cut_of(attribution, batch, match=self.match) > 0

    def considered(self, attribution: Attribution, batch: Batch) -> Tensor:
        """Returns [B, T] bool: the tokens that are compared, by default all tokens that may be explained."""
        return attribution.token_mask

    def no_evidence(self, setting: str) -> str:
        """Returns the beginning of an error message: `setting` cannot be tuned, because no row has evidence."""
        which = f"{'explained' if self.explained == 'all' else self.explained} class"
        lacking = f"no {which} has evidence" if self.match == "class" else f"no text with a {which} has evidence"
        lacking += " (evidence that truncation cut off does not count)"
        return f"{self.name} cannot tune its {setting}: on the validation split, {lacking}"

    @property
    def num_compared(self) -> int:
        """Number of columns that `compare` returns, by default the number of the metric's `columns`.

        Override this property if `measure` computes some of these columns itself.
        """
        return len(self.columns)

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        shape = (*attribution.targets.shape, self.num_compared)
        records = torch.full(shape, torch.nan, dtype=torch.float64, device=attribution.scores.device)
        evidence = evidence_of(attribution, batch, match=self.match)
        rows = evidence.any(dim=-1) & attribution.target_mask  # [B, K]
        if rows.any():
            scores = with_sign(attribution.scores.double(), self.sign)[rows]
            mask = self.considered(attribution, batch).unsqueeze(1).expand_as(evidence)[rows]
            records[rows] = self.compare(scores, evidence[rows], mask).to(records.device)
        return records
