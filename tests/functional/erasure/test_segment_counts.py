"""Counted segments are those that the encoder reads."""

import pytest
import torch

from lightning_xai.functional.erasure.evaluate import Versions
from lightning_xai.functional.erasure.segment_counts import SegmentsOfVersions, count_segments, segments_counted
from lightning_xai.models.segments import logits_by_segment
from tests.conftest import text_inputs, tiny_classifier

S = 8


def encoded_rows(model, function):
    """Returns the number of segments that go through the encoder."""
    rows = []
    hook = model.transformer.register_forward_hook(lambda _m, _a, output: rows.append(len(output.last_hidden_state)))
    function()
    hook.remove()
    return sum(rows)


@pytest.mark.parametrize("erasure", ["delete", "mask"])
@pytest.mark.parametrize("mask_mode", ["correct", "legacy"])
@pytest.mark.parametrize("held", [2**26, 2000])
def test_encoded_segments_are_counted(erasure, mask_mode, held, monkeypatch):
    monkeypatch.setattr(logits_by_segment, "ATTENTION_FLOATS", held)  # fewer numbers make several blocks of versions
    model = tiny_classifier("plm_ca", mask_mode=mask_mode)
    inputs = text_inputs([3 * S, 2 * S + 3, 5])
    example = torch.arange(3).repeat(6)
    keep = torch.rand(len(example), 3 * S, generator=torch.Generator().manual_seed(0)) > 0.1
    classes = torch.zeros(len(example), 1, dtype=torch.long)
    versions = Versions(example, keep)
    with segments_counted() as counts:
        rows = encoded_rows(
            model, lambda: model.version_logits(inputs, versions, classes, erasure=erasure, pad_id=model.pad_id)
        )
    assert counts.sum().num_encoded == rows > 0
    assert counts.sum().num_versions <= len(example)


def test_equal_versions_count_once_and_texts_apart():
    ids = torch.tensor([[0, 1], [0, 1], [2, -1], [0, 3], [-1, -1]])
    example = torch.tensor([0, 0, 1, 0, 1])
    with segments_counted() as counts:
        count_segments([7, 9], example, ids, [slice(0, 3), slice(3, 5)])
    # text 7 has 2 distinct versions of 2 segments; its segment 0 is encoded in both blocks
    assert counts.sum() == SegmentsOfVersions(num_versions=2 + 2, num_segments=4 + 1, num_encoded=2 + 2 + 1)
    with segments_counted() as again:
        count_segments([9], torch.zeros(1, dtype=torch.long), torch.tensor([[5]]), [slice(0, 1)])
    counts.merge(again)  # text 9 was counted before
    assert counts.sum().num_segments == 5


def test_without_a_counter_nothing_counts():
    with segments_counted() as counts:
        pass
    count_segments([0], torch.zeros(1, dtype=torch.long), torch.tensor([[0]]), [slice(0, 1)])
    assert counts.sum().num_versions == 0


def test_versions_without_any_token_count_nothing():
    with segments_counted() as counts:
        count_segments([0], torch.zeros(1, dtype=torch.long), torch.zeros(1, 0, dtype=torch.long), [slice(0, 1)])
    assert counts.sum().num_encoded == 0
