"""Agreement of the top tokens with a human rationale, measured on tokens and on spans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lightning_xai.functional.scores.ranking import Rounding, precision_recall_area, ranks
from lightning_xai.functional.text.spans import runs_from_mask
from lightning_xai.metrics.evidence import EvidenceMetric
from lightning_xai.metrics.top_units import Counts, Percentages


def count_matches(predicted: np.ndarray, truth: np.ndarray, threshold: float = 0.5) -> int:
    """Returns the number of predicted spans that match a true span.

    Args:
        predicted: [P, 2] start and exclusive end of each predicted span.
        truth: [Q, 2] start and exclusive end of each true span.
        threshold: the smallest intersection over union at which two spans match.

    Example:
        >>> predicted, truth = np.array([[0, 2], [7, 9]]), np.array([[0, 3], [8, 12]])
        >>> count_matches(predicted, truth)  # the intersection over union is 2/3 for the first pair, 1/5 for the second
        1
    """
    if not len(predicted) or not len(truth):
        return 0
    begin = np.maximum(predicted[:, None, 0], truth[None, :, 0])
    end = np.minimum(predicted[:, None, 1], truth[None, :, 1])
    shared = np.maximum(end - begin, 0)
    lengths = (predicted[:, 1] - predicted[:, 0])[:, None] + (truth[:, 1] - truth[:, 0])[None, :]
    return int(((shared / (lengths - shared)).max(axis=1) >= threshold).sum())


def harmonic(precision: Tensor, recall: Tensor) -> Tensor:
    """Returns the harmonic mean (f1) of precision and recall, 0 where both are 0.

    Example:
        >>> harmonic(torch.tensor([0.5, 0.0]), torch.tensor([0.5, 0.0]))
        tensor([0.5000, 0.0000])
    """
    total = precision + recall
    return 2 * precision * recall / total.masked_fill(total == 0, 1)


def micro_scores(num_matches: Tensor, num_predicted: Tensor, num_true: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns precision, recall and f1, computed from counts [n] that are first summed over the n examples.

    Example:
        >>> counts = torch.tensor([1.0, 1.0]), torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0])
        >>> [float(value) for value in micro_scores(*counts)[:2]]  # precision 2/4, recall 2/2
        [0.5, 1.0]
    """
    precision = num_matches.sum() / num_predicted.sum().clamp(min=1)
    recall = num_matches.sum() / num_true.sum().clamp(min=1)
    return precision, recall, harmonic(precision, recall)


def macro_scores(num_matches: Tensor, num_predicted: Tensor, num_true: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns mean precision, mean recall and the harmonic mean (f1) of both means.

    Examples without predictions do not count for precision. Examples without true elements do not count for recall.

    Args:
        num_matches: [n] number of correct predictions of each example.
        num_predicted: [n] number of predictions of each example.
        num_true: [n] number of true elements of each example.

    Example:
        >>> counts = torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]), torch.tensor([1.0, 1.0])
        >>> [float(value) for value in macro_scores(*counts)[:2]]  # precision 1/2; recall is the mean of 1 and 0
        [0.5, 0.5]
    """
    precision = (num_matches / num_predicted)[num_predicted > 0].mean()
    recall = (num_matches / num_true)[num_true > 0].mean()
    return precision, recall, harmonic(precision, recall)


@dataclass(frozen=True)
class Percentage:
    """The size of a rationale as a percentage of a text's tokens, but at least one token.

    Args:
        percentage: percent in [0, 100]. If None, the percentage is tuned: it is the share of evidence tokens in a text,
            averaged over the validation split and rounded to whole percent.
        rounding: how the size is rounded to whole tokens.

    Example:
        >>> DiscreteRationale(size=Percentage(30.0)).needs_tuning, DiscreteRationale(size=Percentage()).needs_tuning
        (False, True)
    """

    percentage: float | None = None
    rounding: Rounding = "ceil"

    def sizes(self) -> Percentages:
        """Returns the size of a rationale at `percentage`, or its sizes at 1 to 100 percent if `percentage` is None."""
        percentages = [float(p) for p in range(1, 101)] if self.percentage is None else [self.percentage]
        return Percentages(percentages, rounding=self.rounding, minimum=1)


_TUNED = Percentage()


class DiscreteRationale(EvidenceMetric):
    """Compares a predicted rationale (the top tokens of an attribution) with a human rationale, by tokens and by spans.

    `iou_precision`, `iou_recall` and `iou_f1` are the results of `macro_scores` for counts of matching spans.
    `token_precision`, `token_recall` and `token_f1` are means over examples. `token_micro_f1` is computed from counts
    that are summed over examples. `auprc` is the area under the precision-recall curve by the trapezoidal rule,
    averaged over examples; it does not depend on `size`. Explanations of classes without evidence are skipped.

    Args:
        size: size of the predicted rationale, as a number of tokens or as a Percentage.
        overlap_threshold: the smallest intersection over union at which two spans match.
        **kwargs: see EvidenceMetric.

    Example:
        >>> from lightning_xai.types import Attribution, Batch, TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[4.0, 3.0, 2.0, 1.0]]], inputs.token_mask)
        >>> rationale = Attribution.of_scores([[[0.0, 1.0, 0.0, 0.0]]], inputs.token_mask)
        >>> metric = DiscreteRationale(size=2, name="r")
        >>> metric.update(attribution, Batch(inputs, torch.tensor([0]), rationale), predict=None)
        >>> values = metric.compute()  # 1 of the top 2 tokens is evidence; the spans overlap by a half
        >>> float(values["r/token_precision"]), float(values["r/token_recall"]), float(values["r/iou_f1"])
        (0.5, 1.0, 1.0)

    Reference: DeYoung et al. (2020), "ERASER: A Benchmark to Evaluate Rationalized NLP Models", arXiv 1911.03429,
        section 4.1.
    """

    higher_is_better = True

    def __init__(self, *, size: int | Percentage = _TUNED, overlap_threshold: float = 0.5, **kwargs) -> None:
        super().__init__(**kwargs)
        if isinstance(size, int) and size < 1:
            raise ValueError(f"size is {size}: give at least 1 token")
        self.sizes: Counts | Percentages = Counts([size]) if isinstance(size, int) else size.sizes()
        self.needs_tuning = isinstance(size, Percentage) and size.percentage is None
        self.overlap_threshold = overlap_threshold
        # `compare` returns four numbers for each text, and four numbers for each size of its predicted rationale
        names = ("num_hits", "num_selected", "num_span_matches", "num_selected_spans")
        self.columns = ("auprc", "num_tokens", "num_evidence", "num_spans") + tuple(
            f"{name}_{size}" for name in names for size in self.sizes.names
        )

    def compare(self, scores: Tensor, evidence: Tensor, mask: Tensor) -> Tensor:
        scores, evidence, mask = scores.cpu(), evidence.cpu(), mask.cpu()
        num_tokens = mask.sum(dim=-1)
        sizes = self.sizes.of(num_tokens)  # [R, J]
        token_ranks = ranks(scores, mask)
        num_hits = torch.stack([((token_ranks < k.unsqueeze(1)) & evidence).sum(-1) for k in sizes.T], dim=1)
        rows = zip(token_ranks.numpy(), evidence.numpy(), sizes.tolist(), strict=True)
        num_matches, num_selected, num_true = torch.tensor([self._count_spans(*row) for row in rows]).unbind(dim=1)
        area = precision_recall_area(scores, evidence, mask)
        of_text = torch.stack([area, num_tokens, evidence.sum(-1), num_true[:, 0]], dim=1)
        return torch.cat([of_text, num_hits, sizes, num_matches, num_selected], dim=1)

    def _count_spans(self, token_ranks: np.ndarray, evidence: np.ndarray, sizes: list[int]) -> list[list[int]]:
        """Counts matched, selected and true spans of one text. Returns three lists, each with one count per size."""
        truth = runs_from_mask(evidence)
        # percentages that select the same number of tokens share one count of spans: in a text of 12 tokens, the 100
        # percentages of a tuned size select only 12 different numbers of tokens
        selected = {size: runs_from_mask(token_ranks < size) for size in set(sizes)}
        matches = {size: count_matches(spans, truth, self.overlap_threshold) for size, spans in selected.items()}
        return [
            [matches[size] for size in sizes],
            [len(selected[size]) for size in sizes],
            [len(truth)] * len(sizes),
        ]

    def tune(self) -> dict[str, float]:
        """Returns the value for `percentage`: the share of evidence tokens in a text, averaged over explanations.

        Explanations of classes without evidence are left out. The value is rounded to whole percent, and is at least 1.

        Raises:
            ValueError: no explained class has evidence.
        """
        records = self.table()[1]
        share = (records[:, 2] / records[:, 1]).nanmean()
        if share.isnan():
            raise ValueError(
                f"{self.no_evidence('size')}; give rationales, remove this metric, or set `size` (such as size: 5) "
                "if the test split has evidence"
            )
        return {"percentage": float((100 * share).round().clamp(min=1))}

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        place = 0
        if self.needs_tuning:
            if "percentage" not in self.tuned:
                raise ValueError(
                    f"{self.name} has no size: evaluate the validation split first, or set `size` (such as size: 5)"
                )
            place = int(self.tuned["percentage"]) - 1
        defined = records[~records.isnan().any(dim=1)]
        num_evidence, num_spans = defined[:, 2], defined[:, 3]
        hits, selected, matches, selected_spans = (part[:, place] for part in defined[:, 4:].chunk(4, dim=1))
        iou = macro_scores(matches, selected_spans, num_spans)
        return {
            **dict(zip(("iou_precision", "iou_recall", "iou_f1"), iou, strict=True)),
            "token_precision": (hits / selected).mean(),
            "token_recall": (hits / num_evidence).mean(),
            "token_f1": (2 * hits / (selected + num_evidence)).mean(),
            "token_micro_f1": micro_scores(hits, selected, num_evidence)[2] if len(hits) else torch.tensor(torch.nan),
            "auprc": defined[:, 0].mean(),
        }
