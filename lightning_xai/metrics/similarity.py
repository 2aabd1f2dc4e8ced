"""How alike the explanations are that several networks get for one text: all pairs at once."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.functional.ranking import percent_of, top_mask

MEASURES = ("jaccard", "spearman", "kendall")


def check_percentage(percentage: float) -> None:
    """Raises ValueError unless `percentage` of a text's tokens are at least one and at most all of them."""
    if not 0 < percentage <= 100:
        raise ValueError(f"percentage is {percentage}: give percent above 0 and at most 100")


def similarities(scores: Tensor, percentage: float) -> Tensor:
    """Returns [len(MEASURES), R, R] float64 for R networks' scores [R, T] of the tokens that may be explained.

    NaN for a text without such a token, and see each measure.

    Args:
        percentage: see jaccard.
    """
    if not scores.shape[1]:
        return scores.new_full((len(MEASURES), len(scores), len(scores)), torch.nan, dtype=torch.float64)
    return torch.stack([jaccard(scores, percentage), spearman(scores), kendall(scores)])


def jaccard(scores: Tensor, percentage: float) -> Tensor:
    """Returns [R, R] float64: the overlap of each two networks' most important tokens, from 0 to 1.

    It is the size of the intersection divided by that of the union. Of equal scores the first token is taken.

    Args:
        scores: [R, T] of R networks for the T tokens of one text, T at least 1.
        percentage: percent of the tokens, rounded up.
    """
    counts = percent_of(torch.full(scores.shape[:1], scores.shape[1]), percentage, rounding="ceil")
    top = top_mask(scores, torch.ones_like(scores, dtype=torch.bool), counts.to(scores.device)).double()
    shared = top @ top.T
    sizes = shared.diagonal()
    return shared / (sizes.unsqueeze(0) + sizes.unsqueeze(1) - shared)


def spearman(scores: Tensor) -> Tensor:
    """Returns [R, R] float64: Spearman's correlation of the ranks in each two networks' scores [R, T].

    Equal scores share a rank. NaN where a network scores all tokens alike.
    """
    ordered = scores.sort(dim=-1).values.contiguous()
    # the middle of the places that equal scores take
    first, last = (torch.searchsorted(ordered, scores.contiguous(), side=side) for side in ("left", "right"))
    centered = (first + last).double() - scores.shape[1]  # twice the rank, less its mean: correlation is the same
    return _correlation(centered @ centered.T)


def kendall(scores: Tensor, *, chunk_size: int = 256) -> Tensor:
    """Returns [R, R] float64: Kendall's tau-b of each two networks' scores [R, T]. NaN where one scores all alike.

    Args:
        chunk_size: how many tokens are compared with all others at a time, which bounds memory.
    """
    products = scores.new_zeros(scores.shape[0], scores.shape[0], dtype=torch.float64)
    for part in scores.split(chunk_size, dim=1):
        signs = (part.unsqueeze(2) - scores.unsqueeze(1)).sign().flatten(1).double()  # [R, chunk * T]
        products += signs @ signs.T
    return _correlation(products)


def _correlation(products: Tensor) -> Tensor:
    lengths = products.diagonal().sqrt()
    return products / (lengths.unsqueeze(0) * lengths.unsqueeze(1))
