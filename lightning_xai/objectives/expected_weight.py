"""Computes the mean weight of a training example, as a loss denominator that does not depend on the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from lightning_xai.types import Batch

_ROWS_AT_ONCE = 64


def examples(data: Any, split: str = "train") -> Iterator[Batch]:
    """Yields all examples of a split of a data module in batches, in their order, without any random draw.

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


def counts_in(data: Any, split: str, weights: Callable[[Batch], Tensor]) -> bool:
    """Returns whether an example of a split has a weight above 0; True if `data` is not a data module.

    Args:
        data: the data module of the fit, or None.
        split: name of the split.
        weights: function that returns the weights [B] of a batch's examples.

    Example:
        >>> counts_in(None, "validation", lambda batch: batch.labels)
        True
    """
    if not (hasattr(data, "split") and hasattr(data, "collate")):
        return True
    return any(bool((weights(batch) > 0).any()) for batch in examples(data, split))


def expected_weight(data: Any, weights: Callable[[Batch], Tensor]) -> float | None:
    """Returns the mean weight of a training example; None if `data` is not a data module with a training split.

    A loss that averages over a part of the examples, sum(weight * value) / sum(weight), depends on how the examples of
    an optimizer step fall into micro-batches and processes. The loss sum(weight * value) / (B * expected weight) does
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
