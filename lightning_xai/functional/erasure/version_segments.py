"""Divides versions of texts with erased tokens into segments. A segment that versions share is listed only once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightning_xai.functional.erasure.erase import Erasure

_BLOCK = 2**22  # largest number of tokens, summed over versions, that are processed at once


class SegmentedVersions(NamedTuple):
    """R versions of texts, each divided into at most N segments. All versions together have U distinct segments.

    Two segments are equal if they contain the same tokens of the same text, with the same tokens erased. Comparing
    token ids would not suffice, since an erasure that sets embeddings to zero leaves the ids unchanged.
    """

    ids: Tensor  # [R, N] long, the id (0 to U - 1) of each segment; padded with -1 if a version has fewer segments
    version: Tensor  # [U] long, the index of a version that contains the segment
    position: Tensor  # [U] long, index of the segment among the segments of version `version`, from 0
    length: Tensor  # [U] long, number of tokens in the segment


class _TextSegments(NamedTuple):
    """The segments of one text's versions, as in SegmentedVersions. Some of the U segments may not occur in `ids`."""

    ids: np.ndarray  # [R, N]
    version: np.ndarray  # [U]
    position: np.ndarray  # [U]
    length: np.ndarray  # [U]


def segmented_versions(
    attention_mask: Tensor,
    example: Tensor,
    erased: Tensor,
    *,
    segment_length: int,
    erasure: Erasure,
    padding_segment: bool = False,
) -> SegmentedVersions:
    """Returns the distinct segments of R versions of texts. Padding must follow the tokens. All tensors are on the CPU.

    Args:
        attention_mask: [B, T] bool, False at padding.
        example: [R] long, the row of each version's text in `attention_mask`.
        erased: [R, T] bool, True at the tokens that are erased in each version; padding is never erased.
        segment_length: number S of tokens in a segment.
        erasure: "delete" removes erased tokens before the text is divided; other erasures leave them in place.
        padding_segment: whether a version whose last segment is full gets an additional, empty segment. PLM-CA needs it
            with `mask_mode: legacy`.

    Example:
        >>> text, erased = torch.ones(1, 5).bool(), torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]])
        >>> texts, S = torch.zeros(3, dtype=torch.long), 2
        >>> segmented_versions(text, texts, erased.bool(), segment_length=S, erasure="mask").ids.tolist()
        [[0, 1, 2], [0, 3, 2], [0, 1, 4]]
        >>> segmented_versions(text, texts, erased.bool(), segment_length=S, erasure="delete").ids.tolist()
        [[0, 1, 2], [0, 3, -1], [0, 1, -1]]
    """
    by_text, texts = [], example.unique().tolist()
    for text in texts:
        versions = (example == text).nonzero().flatten()
        rows = erased[versions].numpy()[:, attention_mask[text].numpy()]  # [versions of the text, tokens of the text]
        if erasure == "delete":
            part = _after_deletion(~rows, segment_length)
        else:
            part = _with_erased_bits(rows, segment_length)
        if padding_segment:
            lengths = (~rows).sum(axis=1) if erasure == "delete" else np.full(len(rows), rows.shape[1])
            part = _with_padding_segment(part, lengths, segment_length)
        by_text.append((versions, part))
    width = max((part.ids.shape[1] for _, part in by_text), default=0)
    ids = torch.full((len(example), width), -1)
    described: list[Tensor] = []
    for versions, part in by_text:
        used, inverse = np.unique(part.ids, return_inverse=True)
        numbers: np.ndarray = inverse.reshape(part.ids.shape)
        if len(used) and used[0] < 0:
            used, numbers = used[1:], numbers - 1
        total = sum(len(table) for table in described)
        ids[versions, : numbers.shape[1]] = torch.from_numpy(np.where(numbers < 0, -1, numbers + total))
        table = np.stack([versions.numpy()[part.version[used]], part.position[used], part.length[used]], axis=1)
        described.append(torch.from_numpy(table.astype(np.int64)))
    columns = torch.cat([torch.zeros(0, 3, dtype=torch.long), *described]).unbind(dim=1)
    return SegmentedVersions(ids, *columns)


def segment_columns(
    segmented: SegmentedVersions,
    segments: Tensor,
    attention_mask: Tensor,
    example: Tensor,
    erased: Tensor,
    *,
    segment_length: int,
    erasure: Erasure,
) -> tuple[Tensor, Tensor]:
    """Returns, for n segments, the columns [n, S'] of their tokens in the inputs, and a mask [n, S'], False at padding.

    S' is the number of tokens of the longest of these segments.

    Args:
        segmented: the result of `segmented_versions` for the other arguments.
        segments: [n] long, ids of segments, as in `segmented.ids`.
        attention_mask, example, erased, segment_length, erasure: as for `segmented_versions`.

    Example:
        >>> text, erased = torch.ones(1, 5).bool(), torch.tensor([[False, True, False, False, False]])
        >>> how = {"segment_length": 3, "erasure": "delete"}
        >>> texts = torch.tensor([0])
        >>> segmented = segmented_versions(text, texts, erased, **how)
        >>> segment_columns(segmented, torch.tensor([0, 1]), text, texts, erased, **how)[0].tolist()
        [[4, 0, 0], [0, 2, 3]]
    """
    width = max(int(segmented.length[segments].max()), 1)
    columns = np.zeros((len(segments), width), dtype=np.int64)
    mask, gone = attention_mask.numpy(), erased.numpy()
    for row, segment in enumerate(segments.tolist()):
        version, first = int(segmented.version[segment]), int(segmented.position[segment]) * segment_length
        text = mask[example[version]]
        left = text & ~gone[version] if erasure == "delete" else text
        positions = np.flatnonzero(left)[first : first + segment_length]
        columns[row, : len(positions)] = positions
    keep = torch.arange(width) < segmented.length[segments].unsqueeze(1)
    return torch.from_numpy(columns), keep


def version_blocks(ids: Tensor, most_segments: int) -> Iterator[slice]:
    """Yields slices of versions. Together, the versions of a slice have at most `most_segments` distinct segments.

    Args:
        ids: [R, N] long, the ids of each version's segments. No version may have more than `most_segments` segments.
        most_segments: largest number of distinct segments in a slice.

    Example:
        >>> [(rows.start, rows.stop) for rows in version_blocks(torch.tensor([[0, 1], [0, 2], [3, 4]]), 3)]
        [(0, 2), (2, 3)]
    """
    numbers, start = ids.numpy(), 0
    while start < len(numbers):
        fits, too_many = start + 1, len(numbers) + 1
        while too_many - fits > 1:  # binary search works, as more versions never have fewer distinct segments
            middle = (fits + too_many) // 2 if too_many <= len(numbers) else len(numbers)
            if len(np.unique(numbers[start:middle])) <= most_segments:
                fits = middle
            else:
                too_many = middle
        yield slice(start, fits)
        start = fits


def _with_erased_bits(erased: np.ndarray, size: int) -> _TextSegments:
    """Returns the segments, of at most `size` tokens each, of R versions of a text with L tokens.

    Erased tokens (True in `erased` [R, L]) keep their places.
    """
    num_rows, length = erased.shape
    num_segments = -(-length // size)
    padded = np.zeros((num_rows, num_segments * size), dtype=bool)
    padded[:, :length] = erased
    padded = padded.reshape(num_rows, num_segments, size)
    # [R, N] whether a version erases tokens of a segment. All versions that erase none share the unchanged segment
    changed = np.asarray(padded.any(axis=2))
    row, position = np.nonzero(changed)
    bits = np.packbits(padded[row, position], axis=1)
    first, inverse = _distinct(np.concatenate([position.astype(">u4").view(np.uint8).reshape(-1, 4), bits], axis=1))
    ids = np.tile(np.arange(num_segments), (num_rows, 1))
    ids[row, position] = num_segments + inverse
    version = np.concatenate([(~changed).argmax(axis=0) if num_rows else np.zeros(num_segments, int), row[first]])
    position = np.concatenate([np.arange(num_segments), position[first]])
    return _TextSegments(ids, version, position, np.minimum(size, length - position * size))


def _after_deletion(kept: np.ndarray, size: int) -> _TextSegments:
    """Returns the segments, of at most `size` tokens each, of R versions of a text with L tokens.

    All tokens outside `kept` [R, L] are deleted first.
    """
    num_rows, width = kept.shape
    lengths = kept.sum(axis=1)
    ids = np.full((num_rows, -(-int(lengths.max(initial=0)) // size)), -1)
    parts: list[tuple[np.ndarray, ...]] = []
    positions = []
    per_block = max(_BLOCK // max(width, 1), 1)
    for start in range(0, num_rows, per_block):
        flat = np.flatnonzero(kept[start : start + per_block])  # row * L + position of kept tokens; row 0 is `start`
        length = lengths[start : start + per_block]
        num_segments = -(-length // size)
        row = np.repeat(np.arange(len(length)), num_segments)
        position = np.arange(len(row)) - np.repeat(num_segments.cumsum() - num_segments, num_segments)
        begin = (length.cumsum() - length)[row] + position * size
        count = np.minimum(size, length[row] - position * size)
        first = flat[begin] - row * width
        gap = flat[begin + count - 1] - row * width - first + 1 != count
        inside = np.arange(size) < count[gap, None]
        index = np.where(inside, begin[gap, None] + np.arange(size), 0)
        positions.append(np.where(inside, flat[index] - row[gap, None] * width, -1).astype(np.int32))
        parts.append((row + start, position, count, first, gap))
    row, position, count, first, gap = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    whole, of_whole = _distinct((first * (size + 1) + count)[~gap])
    broken, of_broken = _distinct(np.concatenate(positions).view(np.uint8).reshape(int(gap.sum()), size * 4))
    numbers = np.zeros(len(row), dtype=np.int64)
    numbers[~gap], numbers[gap] = of_whole, len(whole) + of_broken
    ids[row, position] = numbers
    source = np.concatenate([np.flatnonzero(~gap)[whole], np.flatnonzero(gap)[broken]])
    return _TextSegments(ids, row[source], position[source], count[source])


def _with_padding_segment(part: _TextSegments, lengths: np.ndarray, size: int) -> _TextSegments:
    """Adds an empty segment to each version whose last segment is full, which means that it has `size` tokens.

    All versions in `part` are of the same text. `lengths` [R] holds the number of tokens of each version.
    """
    follows = np.flatnonzero((lengths > 0) & (lengths % size == 0))
    if not len(follows):
        return part
    ids = np.pad(part.ids, ((0, 0), (0, 1)), constant_values=-1)
    ids[follows, lengths[follows] // size] = len(part.version)
    version, position = np.append(part.version, follows[0]), np.append(part.position, lengths[follows[0]] // size)
    return _TextSegments(ids, version, position, np.append(part.length, 0))


def _distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the arrays that np.unique returns for `return_index` and `return_inverse`.

    They hold the index of the first row with each distinct key and, for each row, the number of its key among the
    distinct keys. `keys` are [n], or [n, bytes] with one key per row.
    """
    if keys.ndim == 2:
        keys = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)
