"""Counts the segments that a network encodes when it evaluates versions of long texts with erased tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor


class SegmentsOfVersions(NamedTuple):
    """Counts of the segments in the distinct versions of a text. The versions differ in the erased tokens.

    Example:
        >>> SegmentsOfVersions(num_versions=6, num_segments=18, num_encoded=8).per_version
        (3.0, 1.3333333333333333)
    """

    num_versions: int
    num_segments: int  # number of segments, summed over all versions
    num_encoded: int  # number of segments that were encoded; versions that share a segment can share its encoding

    @property
    def per_version(self) -> tuple[float, float]:
        """The mean numbers of segments and of encoded segments per version (the text with some tokens erased)."""
        return self.num_segments / self.num_versions, self.num_encoded / self.num_versions


class SegmentCounts:
    """The segment counts of each text. If several processes counted the same text, `merge` keeps one of the counts.

    Example:
        >>> counts, others = SegmentCounts(), SegmentCounts()
        >>> counts.add([7, 8], SegmentsOfVersions(2, 6, 4), SegmentsOfVersions(2, 10, 4))
        >>> others.add([8], SegmentsOfVersions(2, 10, 4))
        >>> counts.merge(others)
        >>> counts.sum()
        SegmentsOfVersions(num_versions=4, num_segments=16, num_encoded=8)
    """

    def __init__(self) -> None:
        self._by_text: dict[int | None, SegmentsOfVersions] = {}

    def add(self, texts: Iterable[int | None], *counted: SegmentsOfVersions) -> None:
        """Adds the counts of texts.

        Args:
            texts: the index of each text in its split, or None. Texts without an index share one sum of counts.
            counted: one count for each text, in the order of `texts`.
        """
        for text, new in zip(texts, counted, strict=True):
            if new.num_versions:
                before = self._by_text.get(text, SegmentsOfVersions(0, 0, 0))
                self._by_text[text] = SegmentsOfVersions(*map(sum, zip(before, new, strict=True)))

    def merge(self, others: SegmentCounts) -> None:
        """Adds the counts of those texts in `others` that have no counts here yet."""
        for text, counted in others._by_text.items():
            self._by_text.setdefault(text, counted)

    def sum(self) -> SegmentsOfVersions:
        """Returns the sums of the counts over all texts."""
        return SegmentsOfVersions(*map(sum, zip((0, 0, 0), *self._by_text.values(), strict=True)))


_counts: ContextVar[SegmentCounts | None] = ContextVar("_counts", default=None)


@contextmanager
def segments_counted() -> Iterator[SegmentCounts]:
    """Within the context, counts the segments that networks encode to evaluate erased versions of texts.

    Yields the counts. Segments of other texts are not counted.

    Example:
        >>> with segments_counted() as counts:
        ...     pass
        >>> counts.sum().num_versions
        0
    """
    counts = SegmentCounts()
    token = _counts.set(counts)
    try:
        yield counts
    finally:
        _counts.reset(token)


def count_segments(texts: list[int] | list[None], example: Tensor, ids: Tensor, blocks: Iterable[slice]) -> None:
    """Counts the segments of R erased versions of B texts. Does nothing outside of `segments_counted`.

    Args:
        texts: [B] index of each text in its split.
        example: [R] long, the position in `texts` of each version's text.
        ids: [R, N] long, the ids of the segments of each version, padded with -1. Segments of different texts have
            different ids.
        blocks: slices of versions that are encoded together. Each distinct segment of a slice is encoded once.

    Example:
        >>> ids = torch.tensor([[0, 1], [0, 2], [0, 2]])
        >>> with segments_counted() as counts:
        ...     count_segments([7], torch.zeros(3, dtype=torch.long), ids, [slice(0, 3)])
        >>> counts.sum()  # the last two versions are equal
        SegmentsOfVersions(num_versions=2, num_segments=4, num_encoded=3)
    """
    counts = _counts.get()
    if counts is None or not ids.numel():  # outside of `segments_counted`, or no version has a token and so a segment
        return
    numbers = torch.zeros(len(texts), 3, dtype=torch.long)
    rows = torch.cat([example.unsqueeze(1), ids], dim=1)
    distinct = rows.unique(dim=0)
    numbers[:, 0] = distinct[:, 0].bincount(minlength=len(texts))
    numbers[:, 1] = numbers[:, 1].index_add(0, distinct[:, 0], (distinct[:, 1:] >= 0).sum(dim=1))
    text_of_segment = torch.zeros(int(ids.max()) + 2, dtype=torch.long)  # the last entry is for the id -1
    text_of_segment[ids] = example.unsqueeze(1).expand_as(ids)
    for block in blocks:
        encoded = ids[block].unique()
        numbers[:, 2] += text_of_segment[encoded[encoded >= 0]].bincount(minlength=len(texts))
    counts.add(texts, *(SegmentsOfVersions(*row) for row in numbers.tolist()))
