"""Rationales of a given length from scores: the highest ones, or the best stretch of neighbors."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.ranking import top_mask

Selection = Literal["top", "contiguous"]


def select_rationale(scores: Tensor, mask: Tensor, counts: Tensor, *, selection: Selection = "top") -> Tensor:
    """Returns [B, T] bool: `counts` [B] tokens of `mask`, at most all of them.

    Of equal scores, or equal sums, the first is taken.

    Args:
        scores: [B, T].
        mask: [B, T] bool, tokens that may be chosen.
        counts: length of each rationale.
        selection: "top" takes the highest scores; "contiguous" takes the window with the largest sum, of tokens that
            follow one another where all outside `mask` are left out.
    """
    if selection == "top":
        return top_mask(scores, mask, counts)
    totals = mask.sum(dim=1, keepdim=True)
    counts = torch.minimum(counts.unsqueeze(1), totals)  # [B, 1]
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)  # the tokens of the mask first, in their order
    compact = scores.masked_fill(~mask, 0.0).double().gather(1, order)
    sums = torch.cat([torch.zeros_like(compact[:, :1]), compact.cumsum(dim=1)], dim=1)  # [B, T + 1]
    starts = torch.arange(sums.shape[1], device=scores.device).expand_as(sums)
    ends = (starts + counts).clamp(max=scores.shape[1])
    windows = sums.gather(1, ends) - sums
    best = top_mask(windows, starts + counts <= totals, torch.ones_like(counts[:, 0]))
    begin = best.to(torch.uint8).argmax(dim=1, keepdim=True)
    places = (mask.cumsum(dim=1) - 1).masked_fill(~mask, -1)
    return mask & (places >= begin) & (places < begin + counts)
