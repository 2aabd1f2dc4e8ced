"""Attention of class queries over the tokens of a text."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def class_attention(queries: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
    """Returns attention scores [B, C, T] (before softmax) of class queries over token keys.

    Args:
        queries: [C, D], one query for each class, or [B, C, D] if each text has its own queries.
        keys: [B, T, D].
        keep: [B, T] bool. Where it is False, scores are the lowest finite number of their dtype, so that the softmax
            there is exactly 0. In a row that is all False, the softmax is still finite.

    Example:
        >>> keep = torch.tensor([[True, True, False]])
        >>> class_attention(torch.ones(1, 2), torch.ones(1, 3, 2), keep).softmax(dim=-1).tolist()
        [[[0.5, 0.5, 0.0]]]
    """
    # bmm, because matmul would copy its result if it broadcasts the queries
    scores = torch.bmm(queries.expand(keys.shape[0], -1, -1), keys.transpose(1, 2))  # [B, C, T]
    # masked in place, because with thousands of classes and tokens, `scores` is the largest of all tensors
    return scores.masked_fill_(~keep.unsqueeze(1), torch.finfo(scores.dtype).min)


def fused_class_attention(queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor) -> Tensor:
    """Returns softmax(`class_attention`) @ values, of shape [B, C, D], without storing the attention weights.

    Args:
        queries: [C, D], one query for each class, or [B, C, D] if each text has its own queries.
        keys: [B, T, D].
        values: [B, T, D].
        keep: [B, T] bool, False at tokens to which classes do not attend. At least one is True in every row.

    Example:
        >>> keys, keep = torch.ones(1, 3, 2), torch.tensor([[True, True, False]])
        >>> fused_class_attention(torch.ones(1, 2), keys, torch.tensor([[[1.0], [3.0], [9.0]]]), keep).tolist()
        [[[2.0]]]
    """
    mask = None if bool(keep.all()) else keep[:, None, None]
    query, key, value = (t.unsqueeze(1) for t in (queries.expand(len(keys), -1, -1), keys, values))  # [B, 1, ., D]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=1.0).squeeze(1)
