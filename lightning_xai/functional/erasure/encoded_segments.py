"""Counts the segments to encode for all versions of a long text, if each distinct segment is encoded once."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from lightning_xai.functional.erasure.erase import Erasure
from lightning_xai.functional.erasure.version_segments import segmented_versions

_SAMPLE = 256  # up to this number of versions, all segments are counted; with more versions, the count is extrapolated


@runtime_checkable
class ErasesUnits(Protocol):
    """A method or a metric that reads versions of a text without some of its units.

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
        """Returns [R, M] bool for R versions of a text of M = `num_units` units: True where a version erases a unit."""
        ...


def new_segments(erased: Tensor, *, segment_length: int, erasure: Erasure) -> float:
    """Returns how many segments of a version, on average, occur neither in the text nor in an earlier version.

    If there are more than 256 versions, 256 versions at equal distances are compared. The mean is then taken over the
    second half of them, because segments that many versions share are counted in the first half.

    Args:
        erased: [R, T] bool, the tokens that each of R versions of a text erases.
        segment_length: number of tokens in a segment.
        erasure: how tokens are erased, see `erase`.

    Example:
        >>> new_segments(torch.eye(6).bool(), segment_length=2, erasure="mask")  # of three segments, one is changed
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
