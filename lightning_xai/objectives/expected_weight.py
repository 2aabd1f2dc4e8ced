"""The mean weight of a training example, a denominator that is the same for every batch, process and epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from lightning_xai.types import Batch

_ROWS_AT_ONCE = 64


def training_examples(data: Any) -> Iterator[Batch]:
    """Yields all training examples of a data module in their order, in batches that draw no random numbers.

    Args:
        data: an object with `split` and `collate`, as TextDataModule has.

    Example:
        >>> from lightning_xai.data.module import TextDataModule
        >>> from lightning_xai.data.sources.planted import Planted
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> data = TextDataModule(Planted(num_train=100), VocabularyEncoder())
        >>> [len(batch) for batch in training_examples(data)]
        [64, 36]
    """
    split = data.split("train")
    for start in range(0, len(split), _ROWS_AT_ONCE):
        yield data.collate(split[list(range(start, min(start + _ROWS_AT_ONCE, len(split))))])


def expected_weight(data: Any, weights: Callable[[Batch], Tensor]) -> float | None:
    """Returns the mean weight of a training example; None if `data` is not a data module with a training split.

    A loss that averages over a part of the examples, sum(weight * value) / sum(weight), depends on how the examples of
    an optimizer step fall into micro-batches and processes. The loss sum(weight * value) / (B * expected weight) is a
    mean over all B examples, so it does not.

    Args:
        data: the data module of the fit, or None.
        weights: returns the weights [B] of the examples of a batch.

    Example:
        >>> expected_weight(None, lambda batch: batch.labels) is None
        True
    """
    if not (hasattr(data, "split") and hasattr(data, "collate")):
        return None
    total, number = 0.0, 0
    for batch in training_examples(data):
        total += float(weights(batch).sum())
        number += len(batch)
    return total / number
