"""Metrics of a classifier's predictions. They are exact under DDP, because each example index counts once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from lightning_xai.functional.classes.targets import gold_classes, predicted_classes
from lightning_xai.functional.erasure.duplicates import distinct_rows
from lightning_xai.functional.scores.ranking import auroc, average_precision
from lightning_xai.metrics.thresholds import micro_f1_threshold

SINGLE_LABEL_NAMES = frozenset({"macro_f1", "accuracy", "auroc", "log_loss"})
MULTILABEL_NAMES = frozenset(
    {
        "macro_f1", "micro_f1", "micro_precision", "micro_recall", "exact_match", "map", "auroc", "log_loss",
        "example_map", "present_micro_f1", "present_macro_f1",
    }
)  # fmt: skip
LOWER_IS_BETTER = frozenset({"log_loss"})
_EXAMPLES_AT_ONCE = 256
_CLASSES_AT_ONCE = 256  # number of classes that are ranked at the same time; more classes need more memory
FEW = 8  # for fewer examples, `constant_prediction` returns None
_TINY = 1e-12  # keeps logarithms finite


def f1(true_positives: Tensor, false_positives: Tensor, false_negatives: Tensor) -> Tensor:
    """Returns F1, the harmonic mean of precision and recall, in float64; NaN where all three arguments are 0.

    Example:
        >>> float(f1(torch.tensor(2), false_positives=torch.tensor(1), false_negatives=torch.tensor(3)))  # 4 / 8
        0.5
    """
    doubled = 2 * true_positives.double()
    return doubled / (doubled + false_positives + false_negatives)


def confusion(predicted: Tensor, gold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Counts each class's true positives, false positives and false negatives. Returns three tensors [C].

    `predicted` and `gold` are bool masks [B, C].

    Example:
        >>> predicted, gold = torch.tensor([[True], [True], [False]]), torch.tensor([[True], [False], [False]])
        >>> [int(count) for count in confusion(predicted, gold)]
        [1, 1, 0]
    """
    return (predicted & gold).sum(0), (predicted & ~gold).sum(0), (~predicted & gold).sum(0)


def constant_prediction(predicted: Tensor, gold: Tensor) -> list[int] | None:
    """Returns the predicted classes if they are the same for all examples, but wrong for at least two; otherwise None.

    A network with such predictions does not tell the classes apart. For fewer than FEW examples, None is returned,
    because even a good network may predict the same classes for so few. `predicted` and `gold` are bool masks [B, C].

    Example:
        >>> gold = torch.tensor([[True, False], [False, True]]).repeat(FEW, 1)
        >>> constant_prediction(torch.tensor([[False, True]]).repeat(2 * FEW, 1), gold), constant_prediction(gold, gold)
        ([1], None)
    """
    num_wrong = int((predicted != gold).any(dim=1).sum())
    if len(predicted) < FEW or num_wrong < 2 or (predicted != predicted[:1]).any():
        return None
    return predicted[0].nonzero().flatten().tolist()


def class_margins(logits: Tensor, *, multilabel: bool) -> Tensor:
    """Returns the log-odds [B, C] of every class in float64. They rank examples in the order of exact probabilities.

    Float32 probabilities would lose this order, because those near 1 are rounded to 1. In multi-label tasks, the
    log-odds are the logits. In single-label tasks, the log-odds of a class are its logit minus the logsumexp of all
    other logits.

    Args:
        logits: [B, C].
        multilabel: whether an example may have any number of classes.

    Example:
        >>> logits = torch.tensor([[30.0, 0.0], [40.0, 0.0]])
        >>> logits.softmax(dim=1)[:, 0].tolist(), class_margins(logits, multilabel=False)[:, 0].tolist()
        ([1.0, 1.0], [30.0, 40.0])
    """
    logits = logits.detach().double()
    if multilabel:
        return logits
    # subtracting the maximum makes the result independent of a constant that is added to all logits
    logits = logits - logits.amax(dim=1, keepdim=True)
    total = logits.logsumexp(dim=1, keepdim=True)
    # this formula is accurate only for probabilities up to 1/2. The top class may have a larger probability, so another
    # formula replaces its value
    others = total + torch.log1p(-(logits - total).exp())
    top = logits.argmax(dim=1, keepdim=True)
    others = others.scatter(1, top, logits.scatter(1, top, -torch.inf).logsumexp(dim=1, keepdim=True))
    return logits - others


def mean_over_classes(metric: Callable[[Tensor, Tensor], Tensor], scores: Tensor, gold: Tensor) -> Tensor:
    """Returns the mean of a ranking metric over the classes for which the metric is defined.

    Args:
        metric: function that returns the values [C'] of C' classes. Its arguments are the scores [C', B] and a mask
            [C', B] bool of the positive examples.
        scores: [B, C] probabilities or log-odds.
        gold: [B, C] bool, the gold classes.

    Example:
        >>> scores, gold = torch.tensor([[0.9, 0.2], [0.4, 0.3]]), torch.tensor([[True, False], [False, False]])
        >>> float(mean_over_classes(auroc, scores, gold))  # undefined for the second class, which is never gold
        1.0
    """
    parts = zip(scores.split(_CLASSES_AT_ONCE, dim=1), gold.split(_CLASSES_AT_ONCE, dim=1), strict=True)
    return torch.cat([metric(part.T, positives.T) for part, positives in parts]).nanmean()


def mean_over_examples(scores: Tensor, gold: Tensor) -> Tensor:
    """Ranks the classes of each example, and returns the average precision of the ranking, averaged over examples.

    Examples without a gold class are left out.

    Args:
        scores: [B, C] probabilities or log-odds.
        gold: [B, C] bool, the gold classes.

    Example:
        >>> scores, gold = torch.tensor([[0.9, 0.2], [0.4, 0.3]]), torch.tensor([[True, False], [False, True]])
        >>> float(mean_over_examples(scores, gold))  # 1 and 1/2
        0.75
    """
    parts = zip(scores.split(_EXAMPLES_AT_ONCE), gold.split(_EXAMPLES_AT_ONCE), strict=True)
    return torch.cat([average_precision(part, positives) for part, positives in parts]).nanmean()


class ClassificationMetrics(Metric):
    """Computes F1, AUROC, log loss and other metrics of predictions.

    Single-label tasks also have accuracy. Multi-label tasks also have micro scores, exact match and mAP.

    In multi-label tasks, `map` is the average precision, averaged over classes. `example_map`, `present_micro_f1` and
    `present_macro_f1` cover only classes with a gold example in the split, so false positives of other classes do not
    count. For `example_map`, the classes of each example are ranked, and the average precision of this ranking is
    averaged over examples.

    A mean over classes leaves out undefined values. F1 is undefined for a class that is never gold and never predicted,
    average precision for a class that is never gold, and AUROC for a class that is never or always gold. Each example
    index counts once, even if a distributed sampler repeats the example. AUROC and average precision rank by log-odds,
    since float32 probabilities near 1 are rounded to 1. If `update` gets no logits, they rank by probabilities.

    Args:
        num_classes: number of classes C.
        multilabel: whether labels are [B, C] instead of [B].

    Attributes:
        constant: the result of `constant_prediction` for the examples of the last `compute`.

    Example:
        >>> metric = ClassificationMetrics(num_classes=2)
        >>> probs = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
        >>> metric.update(probs, labels=torch.tensor([0, 1]), index=torch.tensor([0, 1]))
        >>> float(metric.compute()["accuracy"])
        0.5

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
    Records", arXiv 2406.08958, Table 5, for the values over classes with a gold example.
    """

    full_state_update = False
    keys: list[Tensor]  # torchmetrics state: indices of the n examples; one int64 tensor [B] for each update
    probs: list[Tensor]  # torchmetrics state: one float32 tensor [B, C] for each update
    scores: list[Tensor]  # torchmetrics state, for ranking metrics: one float64 tensor [B, C] for each update
    labels: list[Tensor]  # torchmetrics state: for each update, an int64 tensor [B], or uint8 [B, C] if multi-label

    def __init__(self, num_classes: int, multilabel: bool = False) -> None:
        super().__init__(compute_with_cache=False)  # a cached result would ignore a new threshold
        self.num_classes = num_classes
        self.multilabel = multilabel
        self.constant: list[int] | None = None
        self.add_state("keys", default=[], dist_reduce_fx="cat")
        self.add_state("probs", default=[], dist_reduce_fx="cat")
        self.add_state("scores", default=[], dist_reduce_fx="cat")
        self.add_state("labels", default=[], dist_reduce_fx="cat")

    def update(self, probs: Tensor, labels: Tensor, index: Tensor, logits: Tensor | None = None) -> None:
        """Adds B examples.

        Args:
            probs: [B, C] probabilities.
            labels: [B], or [B, C] if multi-label.
            index: [B] row number of each example in its split.
            logits: [B, C] logits from which `probs` were computed, for AUROC and average precision.
        """
        self.keys.append(index.detach())
        self.probs.append(probs.detach().float())
        scores = probs.detach() if logits is None else class_margins(logits, multilabel=self.multilabel)
        self.scores.append(scores.double())
        self.labels.append((labels > 0.5).to(torch.uint8) if self.multilabel else labels.detach().long())

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Synchronizes the states over all ranks; a rank without examples sends empty tensors.

        Without these tensors, the gather would hang (torchmetrics #2463).
        """
        if not self.keys:
            self.keys.append(torch.zeros(0, dtype=torch.long, device=self.device))
            self.probs.append(torch.zeros(0, self.num_classes, device=self.device))
            self.scores.append(torch.zeros(0, self.num_classes, device=self.device, dtype=torch.float64))
            if self.multilabel:
                self.labels.append(torch.zeros(0, self.num_classes, dtype=torch.uint8, device=self.device))
            else:
                self.labels.append(torch.zeros(0, dtype=torch.long, device=self.device))
        super().sync(*args, **kwargs)

    def table(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns probabilities, scores for rankings and gold classes (bool) of the distinct examples, sorted by index.

        All three tensors are [n, C].
        """
        if not len(self.keys):
            nothing = torch.zeros(0, self.num_classes)
            return nothing, nothing.double(), nothing.bool()
        states = (self.keys, self.probs, self.scores, self.labels)
        keys, probs, scores, labels = (dim_zero_cat(state) for state in states)
        first, _ = distinct_rows(keys)
        return probs[first], scores[first], gold_classes(labels[first], self.num_classes)

    def best_threshold(self) -> float:
        """Returns which of 100 evenly spaced thresholds from 0 to 1 has the best micro-F1; 0.5 if no class is gold."""
        with self.sync_context(dist_sync_fn=self.dist_sync_fn, process_group=self.process_group):
            probs, _, gold = self.table()
            return micro_f1_threshold(probs, gold)

    def compute(self, threshold: float = 0.5) -> dict[str, Tensor]:
        """Returns `num_examples`, `log_loss` in nats, and the other metrics in [0, 1].

        Without examples, every value except `num_examples` is NaN.

        Args:
            threshold: probability above which a multi-label class counts as predicted; unused for single labels.
        """
        probs, scores, gold = self.table()
        predicted = predicted_classes(probs, multilabel=self.multilabel, decision_threshold=threshold)
        self.constant = constant_prediction(predicted, gold)
        true_positives, false_positives, false_negatives = confusion(predicted, gold)
        values = {"macro_f1": f1(true_positives, false_positives, false_negatives).nanmean()}
        inner = probs.double().clamp(_TINY, 1 - _TINY)
        if self.multilabel:
            hits, extra, missed = true_positives.sum(), false_positives.sum(), false_negatives.sum()
            values["micro_f1"] = f1(hits, extra, missed)
            values["micro_precision"] = hits / (hits + extra)
            values["micro_recall"] = hits / (hits + missed)
            values["exact_match"] = (predicted == gold).all(dim=1).double().mean()
            values["map"] = mean_over_classes(average_precision, scores, gold)
            values["auroc"] = mean_over_classes(auroc, scores, gold)
            present = gold.any(dim=0)
            values["example_map"] = mean_over_examples(scores[:, present], gold[:, present])
            counts = [count[present] for count in (true_positives, false_positives, false_negatives)]
            values["present_micro_f1"] = f1(*(count.sum() for count in counts))
            values["present_macro_f1"] = f1(*counts).nanmean()
            values["log_loss"] = -(inner.log().where(gold, (1 - inner).log())).mean()
        else:
            values["accuracy"] = (predicted & gold).any(dim=1).double().mean()
            ranked = slice(1, None) if self.num_classes == 2 else slice(None)
            values["auroc"] = mean_over_classes(auroc, scores[:, ranked], gold[:, ranked])
            values["log_loss"] = -inner.log()[gold].mean()
        values["num_examples"] = torch.tensor(len(probs))
        return {name: value.float().cpu() for name, value in values.items()}
