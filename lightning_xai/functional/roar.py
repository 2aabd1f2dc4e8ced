"""Which tokens recursive ROAR erases next, and the order of its runs."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.ranking import num_erased, top_mask

Step = Literal["percentage", "token"]


def erased_counts(num_tokens: Tensor, amount: int, *, step: Step) -> Tensor:
    """Returns how many of `num_tokens` [B] are erased, long [B], by integer arithmetic.

    Args:
        num_tokens: tokens that may be erased, those erased already included.
        amount: percent from 0 to 100, rounded down to whole tokens, or a number of tokens.
        step: the unit of `amount`.

    Raises:
        ValueError: a percentage outside [0, 100].
    """
    if step == "token":
        return num_tokens.clamp(max=amount)
    return num_erased(num_tokens, amount)


def next_erasure(scores: Tensor, token_mask: Tensor, erased: Tensor, counts: Tensor) -> Tensor:
    """Returns [B, T] bool: `counts` [B] tokens of `token_mask`, those of `erased` first, then the highest scores.

    Tokens erased already stay erased and count. Of equal scores the first place is erased first, so that nothing
    depends on the machine.

    Args:
        scores: [B, T].
        token_mask: [B, T] bool, tokens that may be erased.
        erased: [B, T] bool, tokens of `token_mask` that are erased already.
    """
    return top_mask(scores.masked_fill(erased, torch.inf), token_mask, counts)
