"""Position ids that do not count padding, and column orders that move padding to the right."""

from __future__ import annotations

import torch
from torch import Tensor


def position_ids(attention_mask: Tensor, *, offset: int = 0, segment_length: int | None = None) -> Tensor:
    """Returns position ids [B, T] that count only real tokens, so they do not depend on where the padding is.

    Args:
        attention_mask: [B, T] bool, False at padding.
        offset: the first position id; padding gets `offset - 1`, or 0 if the offset is 0.
        segment_length: number of real tokens after which position ids start again at `offset`. If None, they never
            start again.

    Example:
        >>> position_ids(torch.tensor([[False, True, True, False, True]]), offset=2).tolist()
        [[1, 2, 3, 1, 4]]
    """
    positions = attention_mask.long().cumsum(dim=1) - 1
    if segment_length is not None:
        positions = positions.clamp(min=0) % segment_length
    positions = (positions + offset).clamp(min=0)
    return positions.masked_fill(~attention_mask, max(offset - 1, 0))


def right_padding_order(attention_mask: Tensor) -> Tensor | None:
    """Returns the column order [B, T] that moves padding to the right, or None if all padding is on the right already.

    Example:
        >>> right_padding_order(torch.tensor([[False, True, True]]))
        tensor([[1, 2, 0]])
    """
    if not (attention_mask[:, 1:] & ~attention_mask[:, :-1]).any():
        return None
    return attention_mask.byte().argsort(dim=1, descending=True, stable=True)


def take_columns(tensor: Tensor, columns: Tensor) -> Tensor:
    """Returns `tensor` [B, T, ...] with each row's entries in the order `columns` [B, T].

    Example:
        >>> take_columns(torch.tensor([[7, 8, 9]]), torch.tensor([[1, 2, 0]]))
        tensor([[8, 9, 7]])
    """
    first = torch.arange(len(tensor), device=tensor.device).unsqueeze(1) * tensor.shape[1]
    # indexing copies all D values of a token at once, while `gather` would look up every single value
    return tensor.flatten(0, 1).index_select(0, (first + columns).flatten()).unflatten(0, columns.shape)
