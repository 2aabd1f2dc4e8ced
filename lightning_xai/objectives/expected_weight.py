"""Computes the mean weight that a loss term gives to a training example.

The sum of the term's weighted values over a batch of B examples is divided by B times this mean weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from lightning_xai.runs.splits import VALIDATION
from lightning_xai.types import Batch

_ROWS_AT_ONCE = 64


def examples(data: Any, split: str = "train") -> Iterator[Batch]:
    """Yields the examples of a split in batches, in the order of the split, without drawing random numbers.

    Args:
        data: an object with the methods `split` and `collate` of TextDataModule.
        split: name of the split.

    Example:
        >>> from lightning_xai.data.module import TextDataModule
        >>> from lightning_xai.data.sources.planted import Planted
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> data = TextDataModule(Planted(num_train=100), VocabularyEncoder())
        >>> [len(batch) for batch in examples(data)]
        [64, 36]
    """
    items = data.split(split)
    for start in range(0, len(items), _ROWS_AT_ONCE):
        yield data.collate(items[list(range(start, min(start + _ROWS_AT_ONCE, len(items))))])


def first_batch(data: Any) -> Batch | None:
    """Returns the first batch that `examples` yields for the training split; None if `data` is not a data module.

    Example:
        >>> first_batch(None) is None
        True
    """
    return next(examples(data)) if hasattr(data, "split") and hasattr(data, "collate") else None


def require_validation_examples(name: str, data: Any, weights: Callable[[Batch], Tensor]) -> None:
    """Raises ValueError if no validation example has a weight above 0 in a term. Does nothing without a data module.

    Args:
        name: name of the term.
        data: the data module of the fit, or None.
        weights: function that returns the weights [B] of a batch's examples.

    Example:
        >>> require_validation_examples("guidance", None, lambda batch: batch.labels)
    """
    if not (hasattr(data, "split") and hasattr(data, "collate")):
        return
    if not any(bool((weights(batch) > 0).any()) for batch in examples(data, VALIDATION)):
        raise ValueError(
            f"no validation example has a weight above 0 in the term {name}, so val/{name} is NaN, and so is val/loss "
            "if it contains this term. The choice of the best checkpoint, early stopping or a validation bound needs "
            "one of these values: use validation data with rationales, or monitor another value and set `validate: "
            "false` for the term"
        )


def expected_weight(data: Any, weights: Callable[[Batch], Tensor]) -> float | None:
    """Returns the mean weight of a training example; None if `data` is not a data module.

    The loss sum(weight * value) / sum(weight) is a mean over some of the examples. It depends on how the examples of an
    optimizer step are divided into micro-batches and processes. The loss sum(weight * value) / (B * mean weight) does
    not depend on this division, since it is a mean over all B examples.

    Args:
        data: the data module of the fit, or None.
        weights: function that returns the weights [B] of a batch's examples.

    Example:
        >>> expected_weight(None, lambda batch: batch.labels) is None
        True
    """
    if not (hasattr(data, "split") and hasattr(data, "collate")):
        return None
    total, number = 0.0, 0
    for batch in examples(data):
        total += float(weights(batch).sum())
        number += len(batch)
    return total / number
