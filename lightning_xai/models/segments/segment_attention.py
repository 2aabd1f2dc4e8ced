"""Softmax attention over the tokens of a text, combined from the attention within each of its segments."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class SegmentAttention(NamedTuple):
    """For each of U segments and K classes, the sum of the segment's token states, weighted by the class's attention.

    `attend` combines these sums into averages over whole texts. The sums take K * (D + 2) floats for each segment.

    Example:
        >>> states, keep = torch.tensor([[[1.0], [3.0]], [[5.0], [9.0]]]), torch.tensor([[True, True], [True, False]])
        >>> attention = segment_attention(torch.zeros(2, 1, 1), states, keep)  # equal weights
        >>> attend(attention, torch.tensor([[0, 1]]), 0)  # the mean of 1, 3 and 5
        tensor([[3.]])
    """

    largest: Tensor  # [U, K] largest attention score (before the softmax) of the segment's tokens
    total: Tensor  # [U, K] sum of exp(attention score - largest) over the segment's tokens
    weighted: Tensor  # [K, U, D] sum of exp(attention score - largest) * state over the segment's tokens


def segment_attention(queries: Tensor, states: Tensor, keep: Tensor) -> SegmentAttention:
    """Returns the attention-weighted sums of each segment's token states, in at least float32.

    Args:
        queries: [U, K, D]; the score of a token is query . state.
        states: [U, S, D].
        keep: [U, S] bool, False at tokens to which classes do not attend; at least one is True in each segment.
    """
    precision = torch.promote_types(states.dtype, torch.float32)
    scores = torch.bmm(queries, states.transpose(1, 2)).to(precision)  # [U, K, S]
    scores = scores.masked_fill_(~keep.unsqueeze(1), -torch.inf)
    largest = scores.amax(dim=-1)
    weights = scores.sub_(largest.unsqueeze(-1)).exp_()
    weighted = torch.bmm(weights, states.to(precision))
    return SegmentAttention(largest, weights.sum(dim=-1), weighted.transpose(0, 1))


def empty_segment_attention(example: SegmentAttention, num_segments: int) -> SegmentAttention:
    """Returns a SegmentAttention of `num_segments` segments, not yet filled, with K, D, dtype and device of `example`.

    Example:
        >>> one = segment_attention(torch.zeros(1, 2, 3), torch.zeros(1, 4, 3), torch.ones(1, 4).bool())
        >>> [tuple(numbers.shape) for numbers in empty_segment_attention(one, 5)]
        [(5, 2), (5, 2), (2, 5, 3)]
    """
    num_classes, _, size = example.weighted.shape
    pair = example.largest.new_empty(num_segments, num_classes)
    return SegmentAttention(pair, torch.empty_like(pair), example.weighted.new_empty(num_classes, num_segments, size))


def attend(attention: SegmentAttention, ids: Tensor, column: int) -> Tensor:
    """Returns, for each of R texts, the average [D] of its token states, weighted by the attention of one class.

    Args:
        attention: each segment's attention-weighted sums of token states.
        ids: [R, N] long, the indices of each text's segments, padded with -1.
        column: position of the class among the K classes of `attention`.
    """
    missing, ids = ids < 0, ids.clamp(min=0)
    largest = attention.largest[:, column][ids].masked_fill(missing, -torch.inf)  # [R, N]
    weights = (largest - largest.amax(dim=1, keepdim=True)).exp()
    total = (weights * attention.total[:, column][ids]).sum(dim=1, keepdim=True)
    return F.embedding_bag(ids, attention.weighted[column], per_sample_weights=weights, mode="sum") / total
