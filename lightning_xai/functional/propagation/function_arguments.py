"""Reads the arguments of torch's normalization and attention functions, and computes attention before the softmax."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def norm_arguments(name: str, args: tuple, kwargs: dict) -> tuple[Any, Any, Any, float]:
    """Returns the arguments (states, shape, weight, eps) of a call to F.layer_norm or F.rms_norm.

    Args:
        name: "layer_norm" or "rms_norm".
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.

    Example:
        >>> norm_arguments("layer_norm", (torch.zeros(2), (2,)), {"bias": None})
        (tensor([0., 0.]), (2,), None, 1e-05)
    """
    names = ("input", "normalized_shape", "weight", *(("bias",) if name == "layer_norm" else ()), "eps")
    given = dict(zip(names, args, strict=False)) | kwargs
    eps = given.get("eps", 1e-5 if name == "layer_norm" else None)
    eps = torch.finfo(given["input"].dtype).eps if eps is None else eps
    return given["input"], given["normalized_shape"], given.get("weight"), eps


def repeat_heads(states: Tensor, num_heads: int) -> Tensor:
    """Repeats each head of `states` for all query heads that share it. The result has shape [..., num_heads, T, d].

    Example:
        >>> repeat_heads(torch.tensor([[[1.0]], [[2.0]]]), 4).flatten().tolist()
        [1.0, 1.0, 2.0, 2.0]
    """
    share = num_heads // states.shape[-3]
    return states if share == 1 else states.repeat_interleave(share, -3)


def attention_scores(
    query: Tensor,
    key: Tensor,
    value: Tensor | None = None,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    rows: slice = slice(None),
) -> Tensor:
    """Returns the attention scores [..., T, T] of F.scaled_dot_product_attention before the softmax.

    Masked scores are set to the lowest finite number instead of -inf, since the softmax of a row that is all -inf (at
    padding) is NaN.

    Args:
        query: [..., H, T, d], the queries. The arguments up to `enable_gqa` are those of
            F.scaled_dot_product_attention.
        key: [..., heads, T, d], the keys.
        value: not used.
        attn_mask: [..., T, T], a bool mask, or floats to add to the scores.
        dropout_p: not used.
        is_causal: if True, queries do not attend to later keys.
        scale: factor by which the scores are multiplied, d ** -0.5 by default.
        enable_gqa: whether several query heads may share a key head.
        rows: the queries whose scores are returned, by default all.

    Example:
        >>> query, key = torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[3.0], [5.0]]])
        >>> attention_scores(query, key).tolist()
        [[[3.0, 5.0], [6.0, 10.0]]]
    """
    if enable_gqa:
        key = repeat_heads(key, query.shape[-3])
    num_queries, scale = query.shape[-2], query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query[..., rows, :] * scale) @ key.transpose(-2, -1)
    lowest = torch.finfo(scores.dtype).min
    if is_causal:
        places = torch.arange(max(num_queries, scores.shape[-1]), device=scores.device)
        return scores.masked_fill(places[:num_queries][rows].unsqueeze(-1) < places[: scores.shape[-1]], lowest)
    if attn_mask is None:
        return scores
    if attn_mask.shape[-2] > 1:
        attn_mask = attn_mask[..., rows, :]
    return scores.masked_fill(~attn_mask, lowest) if attn_mask.dtype == torch.bool else scores + attn_mask.clamp(lowest)
