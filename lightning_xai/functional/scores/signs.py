"""Keeps or removes the signs of scores before the scores are ranked, summed or multiplied."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Sign = Literal["signed", "absolute", "nonnegative"]


def with_sign(scores: Tensor, sign: Sign) -> Tensor:
    """Returns the scores with their signs kept or removed.

    "signed" returns the scores unchanged, "absolute" returns their absolute values, and "nonnegative" returns 0 in
    place of negative scores.

    Example:
        >>> import torch
        >>> with_sign(torch.tensor([-2.0, 1.0]), "nonnegative")
        tensor([0., 1.])
    """
    if sign == "absolute":
        return scores.abs()
    return scores.clamp(min=0) if sign == "nonnegative" else scores
