"""How well a classifier predicts: exact under DDP, because every example is kept once, by its index."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_xai.functional.duplicates import distinct_rows
from lightning_xai.functional.ranking import auroc, average_precision
from lightning_xai.functional.targets import gold_classes, predicted_classes

LOWER_IS_BETTER = frozenset({"log_loss"})
_COLUMNS = 256  # classes ranked at once, bounds the memory of rankings over thousands of classes
_TINY = 1e-12


def f1(true_positives: Tensor, false_positives: Tensor, false_negatives: Tensor) -> Tensor:
    """Returns the harmonic mean of precision and recall in float64; NaN where nothing is gold and nothing predicted."""
    doubled = 2 * true_positives.double()
    return doubled / (doubled + false_positives + false_negatives)


def confusion(predicted: Tensor, gold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns true positives, false positives and false negatives [C] from bool [B, C]."""
    return (predicted & gold).sum(0), (predicted & ~gold).sum(0), (~predicted & gold).sum(0)


def threshold_counts(scores: Tensor, positives: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the numbers of positive and of negative scores strictly above each threshold [G], without a [N, G] table.

    Args:
        scores: [N].
        positives: [N] bool.
        thresholds: [G] ascending, of the scores' dtype.
    """
    exceeded = torch.bucketize(scores, thresholds)  # number of thresholds strictly below the score
    size = len(thresholds) + 1
    above = []
    for group in (exceeded[positives], exceeded[~positives]):
        counts = torch.bincount(group, minlength=size)
        above.append(counts.flip(0).cumsum(0).flip(0)[1:])
    return above[0], above[1]


def micro_f1_threshold(probs: Tensor, gold: Tensor, num_points: int = 100) -> float:
    """Returns the first threshold with the best micro-F1 of `probs > threshold`; 0.5 if nothing is gold.

    Args:
        probs: [B, C] probabilities.
        gold: [B, C] bool.
        num_points: thresholds tried, evenly spaced from 0 to 1.
    """
    if not gold.any():
        return 0.5
    thresholds = torch.linspace(0, 1, num_points, dtype=probs.dtype, device=probs.device)
    true_positives, false_positives = threshold_counts(probs.flatten(), gold.flatten(), thresholds)
    return float(thresholds[f1(true_positives, false_positives, gold.sum() - true_positives).argmax()])


def mean_over_classes(function: Any, probs: Tensor, gold: Tensor) -> Tensor:
    """Returns the mean of a ranking measure over the classes [C] for which it is defined."""
    values = [
        function(scores.T, positives.T)
        for scores, positives in zip(probs.split(_COLUMNS, dim=1), gold.split(_COLUMNS, dim=1), strict=True)
    ]
    return torch.cat(values).nanmean()


class ClassificationMetrics(Metric):
    """Accuracy, F1, AUROC and log loss; for multi-label also precision, recall, exact match and mean average precision.

    Classes for which a value is undefined (no positives, or for F1 neither gold nor predicted) do not enter its mean.
    Examples are distinguished by their index, so what a distributed sampler repeats counts once.

    Args:
        num_classes: C.
        multilabel: whether labels are [B, C] instead of [B].
    """

    full_state_update = False

    def __init__(self, num_classes: int, multilabel: bool = False) -> None:
        super().__init__(compute_with_cache=False)  # a value depends on the threshold, which the cache ignores
        self.num_classes = num_classes
        self.multilabel = multilabel
        self.add_state("keys", default=[], dist_reduce_fx="cat")  # [n] long
        self.add_state("probs", default=[], dist_reduce_fx="cat")  # [n, C] float32
        self.add_state("labels", default=[], dist_reduce_fx="cat")  # [n] long or [n, C] uint8

    def update(self, probs: Tensor, labels: Tensor, index: Tensor) -> None:
        """Adds probabilities [B, C] with labels [B] or [B, C] of the examples `index` [B]."""
        self.keys.append(index.detach())
        self.probs.append(probs.detach().float())
        self.labels.append((labels > 0.5).to(torch.uint8) if self.multilabel else labels.detach().long())

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Synchronizes the states; a rank that saw no example takes part with empty ones (torchmetrics #2463)."""
        if not self.keys:
            self.keys.append(torch.zeros(0, dtype=torch.long, device=self.device))
            self.probs.append(torch.zeros(0, self.num_classes, device=self.device))
            shape, dtype = ((0, self.num_classes), torch.uint8) if self.multilabel else ((0,), torch.long)
            self.labels.append(torch.zeros(shape, dtype=dtype, device=self.device))
        super().sync(*args, **kwargs)

    def table(self) -> tuple[Tensor, Tensor]:
        """Returns probabilities [n, C] and gold classes [n, C] bool of the distinct examples in ascending index."""
        if not len(self.keys):
            return torch.zeros(0, self.num_classes), torch.zeros(0, self.num_classes, dtype=torch.bool)
        keys, probs, labels = (
            state if isinstance(state, Tensor) else torch.cat(state) for state in (self.keys, self.probs, self.labels)
        )
        first, _ = distinct_rows(keys)
        return probs[first], gold_classes(labels[first], self.num_classes)

    def best_threshold(self) -> float:
        """Returns the probability above which predicting a class gives the best micro-F1, of 100 points in [0, 1]."""
        with self.sync_context(dist_sync_fn=self.dist_sync_fn, process_group=self.process_group):
            return micro_f1_threshold(*self.table())

    def compute(self, threshold: float = 0.5) -> dict[str, Tensor]:
        """Returns values in [0, 1], `log_loss` in nats (all NaN without examples) and `num_examples`.

        Args:
            threshold: probability above which a multi-label class counts as predicted; single-label ignores it.
        """
        probs, gold = self.table()
        predicted = predicted_classes(probs, multilabel=self.multilabel, decision_threshold=threshold)
        true_positives, false_positives, false_negatives = confusion(predicted, gold)
        values = {"macro_f1": f1(true_positives, false_positives, false_negatives).nanmean()}
        wide = probs.double().clamp(_TINY, 1 - _TINY)
        if self.multilabel:
            hits, extra, missed = true_positives.sum(), false_positives.sum(), false_negatives.sum()
            values["micro_f1"] = f1(hits, extra, missed)
            values["micro_precision"] = hits / (hits + extra)
            values["micro_recall"] = hits / (hits + missed)
            values["exact_match"] = (predicted == gold).all(dim=1).double().mean()
            values["map"] = mean_over_classes(average_precision, probs, gold)
            values["auroc"] = mean_over_classes(auroc, probs, gold)
            values["log_loss"] = -(wide.log().where(gold, (1 - wide).log())).mean()
        else:
            values["accuracy"] = (predicted & gold).any(dim=1).double().mean()
            ranked = slice(1, None) if self.num_classes == 2 else slice(None)
            values["auroc"] = mean_over_classes(auroc, probs[:, ranked], gold[:, ranked])
            values["log_loss"] = -wide.log()[gold].mean()
        values["num_examples"] = torch.tensor(len(probs))
        return {name: value.float().cpu() for name, value in values.items()}
