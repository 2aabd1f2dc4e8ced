"""Agreement of attributions with evidence spans, at a threshold that can be tuned on the validation split."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.targets import gold_pairs, predicted_classes
from lightning_xai.functional.scores.ranking import Ties, top_mask
from lightning_xai.functional.scores.signs import Sign, with_sign
from lightning_xai.metrics.evidence import EvidenceMetric, evidence_cut_of
from lightning_xai.metrics.precision_recall import (
    PrecisionRecallCurve,
    counts_above,
    pooled_area,
    precision_recall_f1,
    span_ids,
    spans_above,
)
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.metrics.reads_symbols import ReadsSymbols
from lightning_xai.metrics.thresholds import ThresholdGrid, best_f1_threshold
from lightning_xai.types import Attribution, Batch

Part = Literal["predicted", "missed", "zeroed", "with_cut"]

_EPSILON = 1e-11  # the authors' guard against division by zero and log of zero


def to_distribution(scores: Tensor, mask: Tensor) -> Tensor:
    """Returns non-negative scores [..., T] divided by their sum within `mask`; scores outside `mask` become 0.

    Example:
        >>> to_distribution(torch.tensor([3.0, 1.0, 9.0]), torch.tensor([True, True, False])).round(decimals=6).tolist()
        [0.75, 0.25, 0.0]
    """
    scores = scores.double().masked_fill(~mask, 0)
    return scores / (scores.sum(dim=-1, keepdim=True) + _EPSILON)


def uniform_kl(scores: Tensor, evidence: Tensor) -> Tensor:
    """Returns [R] in nats: KL(u || scores), where u is uniform over the evidence [R, T] and scores [R, T] sum to 1.

    Example:
        >>> evidence = torch.tensor([[True, True, False, False]])
        >>> uniform_kl(torch.tensor([[0.25, 0.25, 0.25, 0.25]]), evidence).round(decimals=4).tolist()  # log(2)
        [0.6931]
    """
    share = 1 / evidence.sum(dim=-1, keepdim=True).double()
    return (share * (share / (scores + _EPSILON)).log()).masked_fill(~evidence, 0).sum(dim=-1)


def without_hits(num_evidence: Tensor, num_hits: int) -> Tensor:
    """Returns the values [R, 4 + num_hits] that need no threshold, for rows that lost all evidence to truncation.

    The columns are `num_evidence` (how many evidence tokens each row lost), the number of spans (set to 1), the
    intersection over union (0), `uniform_kl` for scores that are all 0, and `num_hits` zeros: one for each number k,
    because none of the top k tokens is an evidence token.

    Example:
        >>> without_hits(torch.tensor([2]), num_hits=1).round(decimals=1).tolist()  # log(1 / 2 / 1e-11) is 24.6
        [[2.0, 1.0, 0.0, 24.6, 0.0]]
    """
    count = num_evidence.double()
    zeros = torch.zeros_like(count)
    singles = [count, torch.ones_like(count), zeros, -(_EPSILON * count).log(), *[zeros] * num_hits]
    return torch.stack(singles, dim=1)


def overlap(first: Tensor, second: Tensor) -> Tensor:
    """Returns [R] in [0, 1]: the intersection over union of two token masks [R, T].

    Example:
        >>> overlap(torch.tensor([[True, True, False]]), torch.tensor([[False, True, True]])).tolist()
        [0.3333333333333333]
    """
    return (first & second).sum(dim=-1).double() / (first | second).sum(dim=-1)


_GRID = ThresholdGrid()
_CURVE = PrecisionRecallCurve()


class EvidenceOverlap(ReadsSymbols, EvidenceMetric):
    """Compares attributions, normalized to a distribution over the tokens of a text, with evidence for the class.

    Tokens above a threshold are selected. `precision`, `recall` and `f1` come from token counts summed over all
    examples. Three values are means over examples: `empty`, which is 1 if no token is selected; `span_recall`, the
    fraction of spans with a selected token; and `span_cover`, the fraction of these spans' tokens that are selected, or
    0 if no span has a selected token.

    The remaining values need no threshold. `auprc`, `precision_at_k` and `recall_at_k` (of the top k tokens) come from
    counts summed over all examples. `iou` and `kl` are means over examples: `iou` compares the n evidence tokens with
    the n top tokens, and `kl` is the divergence `uniform_kl`. Rows without evidence are skipped.

    Args:
        threshold: a number, or a grid, from which the candidate with the best f1 on the validation split is chosen.
        curve: thresholds of the precision-recall curve, and the rule for the area under it.
        ks: numbers k of top tokens.
        ties: which of two tokens with equal scores ranks higher, the "first" or the "last" in the text.
        sign: sign of the scores before normalization, "absolute" or "nonnegative"; `with_sign` describes both.
        parts: variants for which all values are computed again and named "<part>_<value>". "predicted" covers only
            true positives (gold classes that are predicted), "missed" only false negatives (gold classes that are not
            predicted). "zeroed" sets the scores of tokens without an ASCII letter or digit to 0 before normalization.
            "with_cut" adds the rows that lost all their evidence to truncation: their evidence tokens count as missed,
            and their selected tokens as wrong. These rows do not affect the tuning of the threshold.
        **kwargs: see EvidenceMetric.

    Example:
        >>> from lightning_xai.types import Attribution, Batch, TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[4.0, 3.0, 1.0, 0.0]]], inputs.token_mask)
        >>> rationale = Attribution.of_scores([[[1.0, 0.0, 1.0, 0.0]]], inputs.token_mask)
        >>> metric = EvidenceOverlap(threshold=0.25, ks=[1], name="e")
        >>> metric.update(attribution, Batch(inputs, torch.tensor([0]), rationale), predict=None)
        >>> values = metric.compute()  # shares 4/8, 3/8, 1/8, 0: two exceed 0.25, one of them is evidence
        >>> [float(values[f"e/{name}"]) for name in ("precision", "recall", "span_recall", "precision_at_1")]
        [0.5, 0.5, 0.5, 1.0]

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, section 4.
    Differs: the published code (and the preset edin_code) selects among 101 thresholds from 0 to 0.1, and computes the
        area by trapezoids over 101 thresholds from 0 to 1. The paper's tables swap span_recall and span_cover. The
        paper does not give the threshold for "zeroed"; the authors' result files use that of the unzeroed scores.
    """

    def __init__(
        self,
        *,
        threshold: float | ThresholdGrid = _GRID,
        curve: PrecisionRecallCurve = _CURVE,
        ks: list[int] = [5],  # noqa: B006  (never mutated; jsonargparse prints it in its help)
        ties: Ties = "first",
        sign: Sign = "absolute",
        parts: list[Part] = [],  # noqa: B006
        **kwargs,
    ) -> None:
        super().__init__(sign=sign, **kwargs)
        for part in parts:
            require_choices({"parts": Part}, {"parts": part})
        if min(ks, default=1) < 1:
            raise ValueError(f"ks are {ks}: each must be at least 1")
        if sign == "signed":
            raise ValueError("sign is signed, but normalized scores must not be negative: set it to absolute")
        self.threshold, self.area, self.ks, self.ties = threshold, curve.area, ks, ties
        self.needs_tuning = isinstance(threshold, ThresholdGrid)
        if isinstance(threshold, ThresholdGrid):
            self.thresholds = threshold.thresholds
        else:
            self.thresholds = torch.tensor([threshold], dtype=torch.float64)
        self.curve_thresholds = curve.thresholds
        # a record begins with columns that need no threshold, followed by counts for each threshold
        singles = ("num_evidence", "num_spans", "iou", "kl", *(f"top_{k}" for k in ks))
        self.widths = dict.fromkeys(singles, 1)
        of_grid = ("num_hits", "num_selected", "num_span_hits", "num_span_tokens")
        self.widths |= dict.fromkeys(of_grid, len(self.thresholds))
        self.widths |= dict.fromkeys(("curve_hits", "curve_selected"), len(self.curve_thresholds))
        names = [f"{name}_{place}" for name, width in self.widths.items() for place in range(width)]
        self.parts, self._num_compared = parts, len(names)
        self.selections = tuple(f"{part}_" for part in parts if part in ("predicted", "missed"))
        zeroed = [f"zeroed_{name}" for name in names] if "zeroed" in parts else []
        self.columns = (*names, *zeroed, *(["part"] if self.selections else []))
        self.columns += ("uncut",) if "with_cut" in parts else ()  # "uncut": 1, NaN if truncation cut off all evidence

    @property
    def num_compared(self) -> int:
        return self._num_compared

    @property
    def needs_symbols(self) -> bool:
        return "zeroed" in self.parts

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        records = [super().measure(attribution, batch, predict)]
        if "with_cut" in self.parts:
            uncut = self._add_cut_rows(records[0], attribution, batch)
        if "zeroed" in self.parts:
            symbols = self.symbols_of(batch.inputs).unsqueeze(1)
            zeroed = replace(attribution, scores=attribution.scores.masked_fill(symbols, 0))
            records.append(super().measure(zeroed, batch, predict))
        if self.selections:
            records.append(_part_of_rows(attribution, batch, predict).to(records[0]).unsqueeze(-1))
        if "with_cut" in self.parts:
            records.append(uncut.unsqueeze(-1))
        return torch.cat(records, dim=-1)

    def _add_cut_rows(self, records: Tensor, attribution: Attribution, batch: Batch) -> Tensor:
        """Fills in `records` of rows that lost all evidence to truncation. Returns the column "uncut" [B, K]."""
        num_evidence = evidence_cut_of(attribution, batch, match=self.match)
        rows = (num_evidence > 0) & attribution.target_mask
        if rows.any():
            scores = with_sign(attribution.scores.double(), self.sign)[rows]
            mask = self.considered(attribution, batch).unsqueeze(1).expand_as(attribution.scores)[rows]
            compared = self.compare(scores, torch.zeros_like(mask), mask)
            singles = without_hits(num_evidence[rows], len(self.ks)).to(compared)
            records[rows] = torch.cat([singles, compared[:, singles.shape[1] :]], dim=1).to(records.device)
        return torch.ones_like(records[..., 0]).masked_fill(rows.to(records.device), torch.nan)

    def compare(self, scores: Tensor, evidence: Tensor, mask: Tensor) -> Tensor:
        shares = to_distribution(scores, mask)
        num_evidence = evidence.sum(dim=-1)
        num_spans = span_ids(evidence).masked_fill(~evidence, -1).amax(dim=1) + 1
        singles = [num_evidence, num_spans, overlap(top_mask(shares, mask, num_evidence, ties=self.ties), evidence)]
        singles.append(uniform_kl(shares, evidence))
        for k in self.ks:
            top = top_mask(shares, mask, torch.full_like(num_evidence, k), ties=self.ties)
            singles.append((top & evidence).sum(dim=-1))
        grid, curve_grid = self.thresholds.to(shares.device), self.curve_thresholds.to(shares.device)
        counts = [counts_above(shares, evidence, grid), counts_above(shares, mask, grid)]
        counts += spans_above(shares, evidence, grid)
        counts += [counts_above(shares, evidence, curve_grid), counts_above(shares, mask, curve_grid)]
        return torch.cat([torch.stack([single.double() for single in singles], dim=1), *counts], dim=1)

    def _counts(self, records: Tensor) -> dict[str, Tensor]:
        """Leaves out records with NaN. Returns, for each name in `widths`, the columns [n, width] of the n others."""
        defined = records[~records.isnan().any(dim=1)]
        return dict(zip(self.widths, defined.split(list(self.widths.values()), dim=1), strict=True))

    def tune(self) -> dict[str, float]:
        """Returns the first threshold of the grid with the best f1. Raises ValueError if no row has evidence."""
        counts = self._counts(self._records_of("all", self.table()[1]))
        if not len(counts["num_hits"]):
            remedy = "give rationales, remove the metric, or set `threshold` if tests have evidence"
            raise ValueError(f"{self.no_evidence('threshold')}; {remedy}")
        sums = (counts[name].sum(dim=0) for name in ("num_hits", "num_selected", "num_evidence"))
        return {"threshold": best_f1_threshold(self.thresholds, *sums)}

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        values = self._values(self._records_of("all", records))
        for part in self.parts:
            for name, value in self._values(self._records_of(part, records)).items():
                if name != "threshold":
                    values[f"{part}_{name}"] = value
        return values

    def _records_of(self, part: Part | Literal["all"], records: Tensor) -> Tensor:
        """Returns the rows and columns of `records` for "all" or for a part in `self.parts`: [rows, num_compared]."""
        if part == "zeroed":
            return records[:, self.num_compared : 2 * self.num_compared]
        return records[self._rows_of(part, records), : self.num_compared]

    def _rows_of(self, part: str, records: Tensor) -> Tensor:
        """Returns [n] bool, True for those of n records that count for "all" or for a part in `self.parts`."""
        if part == "with_cut" or "uncut" not in self.columns:
            rows = torch.ones(len(records), dtype=torch.bool, device=records.device)
        else:
            rows = ~records[:, self.columns.index("uncut")].isnan()
        if part in ("predicted", "missed"):
            rows = rows & (records[:, self.columns.index("part")] == (part == "predicted"))
        return rows

    def counted_rows(self, key: str, records: Tensor) -> Tensor:
        part = next((part for part in self.parts if key.startswith(f"{part}_")), "all")
        counted = records if part != "with_cut" else records[:, : self.num_compared]
        return super().counted_rows(key, counted) & self._rows_of(part, records)

    def _values(self, records: Tensor) -> dict[str, Tensor]:
        """Returns name -> value (such as precision or recall), computed from records [n, num_compared]."""
        threshold = self.tuned.get("threshold") if isinstance(self.threshold, ThresholdGrid) else self.threshold
        if threshold is None:
            raise ValueError(f"{self.name} has no threshold: evaluate the validation split first, or set `threshold`")
        place = int((self.thresholds == threshold).nonzero())
        counts = self._counts(records)
        num_evidence = counts["num_evidence"].sum()
        names = ("num_hits", "num_selected", "num_span_hits", "num_span_tokens")
        hits, selected, span_hits, span_tokens = (counts[name][:, place] for name in names)
        precision, recall, f1 = precision_recall_f1(hits.sum(), selected.sum(), num_evidence)
        curve_hits, curve_selected = counts["curve_hits"].sum(0), counts["curve_selected"].sum(0)
        values = {
            "precision": precision,
            "recall": recall,
            "f1": f1,
            "auprc": pooled_area(curve_hits, curve_selected, num_evidence, self.area),
            "empty": (selected == 0).double().mean(),
            "span_recall": (span_hits / counts["num_spans"][:, 0]).mean(),
            "span_cover": (hits / span_tokens.clamp(min=1)).mean(),
            "iou": counts["iou"].mean(),
            "kl": counts["kl"].mean(),
            "threshold": torch.tensor(threshold, dtype=torch.float64),
        }
        for k in self.ks:
            values[f"precision_at_{k}"] = counts[f"top_{k}"].sum() / (k * len(selected))
            values[f"recall_at_{k}"] = counts[f"top_{k}"].sum() / num_evidence
        if not len(selected):
            return {name: torch.full_like(value, torch.nan) for name, value in values.items()}
        return values


def _part_of_rows(attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
    """Returns [B, K]: 1 for predicted gold classes, 0 for missed gold classes, -1 for classes that are not gold."""
    probs, multilabel = predict(batch.inputs), batch.labels.dim() == 2
    predicted = predicted_classes(probs, multilabel=multilabel, decision_threshold=predict.decision_threshold)
    rows = predicted.gather(1, attribution.targets).long()
    return rows.masked_fill(~gold_pairs(batch.labels, attribution.targets), -1)
