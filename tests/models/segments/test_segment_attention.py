"""Attention over a text, combined from the attention within its segments, is the softmax over all its tokens."""

import torch

from lightning_xai.models.segments.segment_attention import attend, empty_segment_attention, segment_attention


def whole_text(queries, states, keep, ids):
    """Returns the states [R, K, D] of texts, each the softmax average over all tokens of its segments."""
    rows = []
    for segments in ids:
        present = segments[segments >= 0]
        tokens, kept = states[present].flatten(0, 1), keep[present].flatten()
        scores = (queries[0] @ tokens.T).masked_fill(~kept, -torch.inf)
        rows.append(scores.softmax(dim=-1) @ tokens)
    return torch.stack(rows)


def test_equals_the_softmax_over_all_tokens_of_a_text():
    queries = torch.randn(1, 3, 4, dtype=torch.float64).expand(5, -1, -1)
    states = torch.randn(5, 6, 4, dtype=torch.float64)
    keep = torch.rand(5, 6) < 0.7
    keep[:, 0] = True
    ids = torch.tensor([[0, 3, -1], [1, 2, 4], [4, -1, -1], [2, 2, 0]])  # a segment may occur twice
    attention = segment_attention(queries, states, keep)
    expected = whole_text(queries, states, keep, ids)
    for column in range(3):
        torch.testing.assert_close(attend(attention, ids, column), expected[:, column])


def test_scores_whose_exponentials_overflow_are_combined():
    states, keep = torch.tensor([[[1.0], [3.0]], [[5.0], [4.0]]]), torch.ones(2, 2, dtype=torch.bool)
    attention = segment_attention(torch.full((2, 1, 1), 1000.0), states, keep)
    assert attend(attention, torch.tensor([[0, 1]]), 0).tolist() == [[5.0]]


def test_half_precision_is_summed_in_float32():
    states, keep = torch.ones(1, 2, 4, dtype=torch.bfloat16), torch.ones(1, 2, dtype=torch.bool)
    attention = segment_attention(torch.ones(1, 3, 4, dtype=torch.bfloat16), states, keep)
    empty = empty_segment_attention(attention, 7)
    assert {part.dtype for part in (*attention, *empty)} == {torch.float32}
    assert [tuple(part.shape) for part in empty] == [(7, 3), (7, 3), (3, 7, 4)]
