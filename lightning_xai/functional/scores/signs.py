"""Keeps or removes the signs of scores before the scores are ranked, summed or multiplied."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Sign = Literal["signed", "absolute", "nonnegative"]


def with_sign(scores: Tensor, sign: Sign) -> Tensor:
    """Returns scores that are unchanged ("signed"), absolute ("absolute"), or at least 0 ("nonnegative").

    "nonnegative" replaces negative scores by 0.

    Example:
        >>> import torch
        >>> with_sign(torch.tensor([-2.0, 1.0]), "nonnegative")
        tensor([0., 1.])
    """
    if sign == "absolute":
        return scores.abs()
    return scores.clamp(min=0) if sign == "nonnegative" else scores
