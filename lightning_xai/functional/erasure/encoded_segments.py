"""Counts the distinct segments in versions of a long text. The versions differ in the units that are erased.

A network that encodes segments separately needs to encode each distinct segment only once.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from lightning_xai.functional.erasure.erase import Erasure
from lightning_xai.functional.erasure.version_segments import segmented_versions

_SAMPLE = 256  # largest number of versions whose segments are counted; if there are more, a sample of them is counted


@runtime_checkable
class ErasesUnits(Protocol):
    """The interface of a method or metric that evaluates versions of a text, each with some units erased.

    Example:
        >>> class FirstUnit:
        ...     erasure = "mask"
        ...     def erased_units(self, num_units):
        ...         return torch.arange(num_units).unsqueeze(0) == 0
        >>> isinstance(FirstUnit(), ErasesUnits)
        True
    """

    erasure: Erasure

    def erased_units(self, num_units: int) -> Tensor:
        """Returns [R, M] bool: True at the units that are erased in R versions of a text with M = `num_units` units."""
        ...


def new_segments(erased: Tensor, *, segment_length: int, erasure: Erasure) -> float:
    """Returns how many segments of a version, on average, are neither in the unerased text nor in an earlier version.

    If there are more than 256 versions, only 256 evenly spaced versions are compared. Half of these (every second one)
    serve only as earlier versions, and the mean is taken over the other half. So a segment that many versions share is
    usually found in an earlier version, and is not counted.

    Args:
        erased: [R, T] bool, True at the tokens that are erased in each of R versions of a text.
        segment_length: number of tokens in a segment.
        erasure: how tokens are erased, see `erase`.

    Example:
        >>> new_segments(torch.eye(6).bool(), segment_length=2, erasure="mask")  # each changes one of 3 segments
        1.0
    """
    if not len(erased):
        return 0.0
    rows = torch.linspace(0, len(erased) - 1, min(len(erased), _SAMPLE)).round().long()
    whole = torch.zeros(1, erased.shape[1], dtype=torch.bool)

    def number(chosen: Tensor) -> int:
        versions = torch.cat([whole, erased[chosen]])
        text, texts = torch.ones_like(whole), torch.zeros(len(versions), dtype=torch.long)
        segmented = segmented_versions(text, texts, versions, segment_length=segment_length, erasure=erasure)
        return len(segmented.length)

    if len(erased) <= _SAMPLE:
        return (number(rows) - number(rows[:0])) / len(rows)
    half = rows[::2]
    return (number(rows) - number(half)) / (len(rows) - len(half))
