"""Padding: positions that count real tokens only, and columns in another order."""

from __future__ import annotations

import torch
from torch import Tensor


def position_ids(attention_mask: Tensor, *, offset: int = 0, segment_length: int | None = None) -> Tensor:
    """Returns positions [B, T] that count real tokens only, so padding anywhere leaves them unchanged.

    Args:
        attention_mask: [B, T] bool.
        offset: the first position; padding gets `offset - 1`, or 0 if there is none.
        segment_length: positions start again after so many real tokens.
    """
    positions = attention_mask.long().cumsum(dim=1) - 1
    if segment_length is not None:
        positions = positions.clamp(min=0) % segment_length
    positions = (positions + offset).clamp(min=0)
    return positions.masked_fill(~attention_mask, max(offset - 1, 0))


def right_padding_order(attention_mask: Tensor) -> Tensor | None:
    """Returns the columns [B, T] that move each row's real tokens to the front, or None if they are there already."""
    if not (attention_mask[:, 1:] & ~attention_mask[:, :-1]).any():
        return None
    return attention_mask.byte().argsort(dim=1, descending=True, stable=True)


def take_columns(tensor: Tensor, columns: Tensor) -> Tensor:
    """Returns `tensor` [B, T, ...] with each row's entries in the order `columns` [B, T]."""
    first = torch.arange(len(tensor), device=tensor.device).unsqueeze(1) * tensor.shape[1]
    # whole rows: `gather` would look every number's place up
    return tensor.flatten(0, 1).index_select(0, (first + columns).flatten()).unflatten(0, columns.shape)
