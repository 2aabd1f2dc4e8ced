"""Segments of versions equal a loop over versions, tokens and segments."""

import pytest
import torch

from lightning_xai.functional.erasure.version_segments import segment_columns, segmented_versions, version_blocks


def texts_and_versions(num_versions=40, fraction=0.3):
    generator = torch.Generator().manual_seed(0)
    attention = torch.ones(3, 14, dtype=torch.bool)
    attention[1, :5] = False  # padding on the left
    attention[2, 3:] = attention[2, 0] = False  # a text of two tokens
    example = torch.randint(3, (num_versions,), generator=generator)
    erased = torch.rand(num_versions, 14, generator=generator) < fraction
    erased[::7] = False
    erased[1::7] = True
    return attention, example, erased & attention[example]


def one_by_one(attention, example, erased, size, erasure, padding_segment):
    """Returns for each version its segments as (text, tokens, erased tokens)."""
    versions = []
    for text, gone in zip(example.tolist(), erased, strict=True):
        columns = attention[text].nonzero().flatten().tolist()
        if erasure == "delete":
            columns = [column for column in columns if not gone[column]]
        cut = [tuple(columns[start : start + size]) for start in range(0, len(columns), size)]
        if padding_segment and columns and len(columns) % size == 0:
            cut.append(())
        versions.append([(text, part, tuple(c for c in part if gone[c])) for part in cut])
    return versions


@pytest.mark.parametrize("erasure", ["mask", "delete"])
@pytest.mark.parametrize("padding_segment", [False, True])
@pytest.mark.parametrize("fraction", [0.0, 0.08, 0.5])
@pytest.mark.parametrize("size", [1, 3, 7, 20])
def test_segments_are_equal_exactly_if_text_tokens_and_erased_tokens_are(erasure, padding_segment, fraction, size):
    attention, example, erased = texts_and_versions(fraction=fraction)
    options = {"segment_length": size, "erasure": erasure}
    segmented = segmented_versions(attention, example, erased, padding_segment=padding_segment, **options)
    expected = one_by_one(attention, example, erased, size, erasure, padding_segment)
    number_of: dict[tuple, int] = {}
    for version, segments in enumerate(expected):
        ids = segmented.ids[version].tolist()
        assert [i for i in ids if i >= 0] == ids[: len(segments)]
        for i, segment in zip(ids, segments, strict=False):
            assert number_of.setdefault(segment, i) == i
    assert sorted(number_of.values()) == list(range(len(segmented.length)))
    segments = torch.arange(len(segmented.length))
    columns, keep = segment_columns(segmented, segments, attention, example, erased, **options)
    for (text, tokens, _), i in number_of.items():
        assert columns[i][keep[i]].tolist() == list(tokens) and segmented.length[i] == len(tokens)
        assert example[segmented.version[i]] == text


def test_blocks_of_versions_are_the_longest_that_fit():
    ids = torch.tensor([[0, 1], [0, 2], [0, 3], [4, 5], [4, 5]])
    assert [(b.start, b.stop) for b in version_blocks(ids, 3)] == [(0, 2), (2, 3), (3, 5)]
    assert [(b.start, b.stop) for b in version_blocks(ids, 6)] == [(0, 5)]


def test_deleting_each_token_of_a_text_shares_the_shifted_segments():
    length, size = 40, 4
    erased, text = torch.eye(length).bool(), torch.ones(1, length, dtype=torch.bool)
    texts = torch.zeros(length, dtype=torch.long)
    segmented = segmented_versions(text, texts, erased, segment_length=size, erasure="delete")
    assert len(segmented.length) <= length + 2 * length // size
