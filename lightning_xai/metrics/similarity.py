"""Similarities between the explanations that several networks give for one text, for all pairs of networks at once."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.functional.scores.ranking import percent_of, top_mask

SIMILARITIES = ("jaccard", "spearman", "kendall")


def require_percentage(percentage: float) -> None:
    """Checks that a percentage is above 0 and at most 100.

    Raises:
        ValueError: the percentage is not in (0, 100].

    Example:
        >>> require_percentage(0)
        Traceback (most recent call last):
        ValueError: percentage is 0: give percent above 0 and at most 100
    """
    if not 0 < percentage <= 100:
        raise ValueError(f"percentage is {percentage}: give percent above 0 and at most 100")


def similarities(scores: Tensor, percentage: float) -> Tensor:
    """Returns [3, R, R] float64: Jaccard, Spearman and Kendall similarity, in this order, for each pair of networks.

    All values are NaN if no token of the text may be explained (T is 0).

    Args:
        scores: [R, T] scores of R networks for one text with T tokens that may be explained.
        percentage: `jaccard` compares this percentage of the T tokens, namely those with the highest scores.

    Example:
        >>> scores = torch.tensor([[4.0, 3.0, 2.0, 1.0], [8.0, 6.0, 4.0, 2.0]])  # the same order
        >>> dict(zip(SIMILARITIES, similarities(scores, 50)[:, 0, 1].round(decimals=6).tolist()))
        {'jaccard': 1.0, 'spearman': 1.0, 'kendall': 1.0}
    """
    if not scores.shape[1]:
        return scores.new_full((len(SIMILARITIES), len(scores), len(scores)), torch.nan, dtype=torch.float64)
    return torch.stack([jaccard(scores, percentage), spearman(scores), kendall(scores)])


def jaccard(scores: Tensor, percentage: float) -> Tensor:
    """Returns [R, R] float64 in [0, 1]: the overlap of the most important tokens, for each pair of networks.

    The overlap of two sets of tokens is their intersection over their union. Of tokens with equal scores, the first in
    the text ranks higher.

    Args:
        scores: [R, T] scores of R networks for the T tokens of one text, T at least 1.
        percentage: percentage of tokens that count as most important; their number is rounded up.

    Example:
        >>> scores = torch.tensor([[4.0, 3.0, 2.0, 1.0], [4.0, 1.0, 2.0, 3.0]])
        >>> jaccard(scores, 50)[0].tolist()  # the top halves {0, 1} and {0, 3} share one of three tokens
        [1.0, 0.3333333333333333]
    """
    counts = percent_of(torch.full(scores.shape[:1], scores.shape[1]), percentage, rounding="ceil")
    top = top_mask(scores, torch.ones_like(scores, dtype=torch.bool), counts.to(scores.device)).double()
    shared = top @ top.T
    sizes = shared.diagonal()
    return shared / (sizes.unsqueeze(0) + sizes.unsqueeze(1) - shared)


def spearman(scores: Tensor) -> Tensor:
    """Returns [R, R] float64 in [-1, 1]: Spearman's rank correlation of the scores, for each pair of networks.

    Equal scores all get the mean of their ranks. NaN where a network gives all tokens the same score.

    Args:
        scores: [R, T] scores of R networks for the T tokens of one text.

    Example:
        >>> spearman(torch.tensor([[1.0, 2.0, 5.0], [0.5, 0.4, 0.3]])).round(decimals=6).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    ordered = scores.sort(dim=-1).values.contiguous()
    # equal scores all get the mean of their ranks
    first, last = (torch.searchsorted(ordered, scores.contiguous(), side=side) for side in ("left", "right"))
    # this is twice the difference from the mean rank; the factor 2 does not change correlations
    centered = (first + last).double() - scores.shape[1]
    return _correlation(centered @ centered.T)


def kendall(scores: Tensor, *, chunk_size: int = 256) -> Tensor:
    """Returns [R, R] float64 in [-1, 1]: Kendall's tau-b of the scores, for each pair of networks.

    NaN where a network gives all tokens the same score.

    Args:
        scores: [R, T] scores of R networks for the T tokens of one text.
        chunk_size: number of tokens that are compared with all tokens at a time; smaller chunks need less memory.

    Example:
        >>> scores = torch.tensor([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])
        >>> kendall(scores).round(decimals=4).tolist()  # 2 pairs agree and 1 does not: (2 - 1) / 3
        [[1.0, 0.3333], [0.3333, 1.0]]
    """
    products = scores.new_zeros(scores.shape[0], scores.shape[0], dtype=torch.float64)
    for part in scores.split(chunk_size, dim=1):
        signs = (part.unsqueeze(2) - scores.unsqueeze(1)).sign().flatten(1).double()  # [R, chunk * T]
        products += signs @ signs.T
    return _correlation(products)


def _correlation(products: Tensor) -> Tensor:
    """Divides the dot products [R, R] of R vectors by the norms of both vectors."""
    lengths = products.diagonal().sqrt()
    return products / (lengths.unsqueeze(0) * lengths.unsqueeze(1))
