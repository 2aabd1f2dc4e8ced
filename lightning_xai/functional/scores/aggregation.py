"""Pools the D numbers of each token into one score, converts between token and word scores, and normalizes scores."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Pooling = Literal["l2", "l1", "sum", "mean"]
WordPooling = Literal["sum", "mean", "max"]


def pool(values: Tensor, pooling: Pooling) -> Tensor:
    """Returns one score per token [..., T] from values [..., T, D].

    Args:
        values: [..., T, D], D numbers for each token.
        pooling: "l2" and "l1" take the norm of the D numbers; "sum" and "mean" keep signs, so scores may be negative.

    Raises:
        ValueError: `pooling` is not "l2", "l1", "sum" or "mean".

    Example:
        >>> values = torch.tensor([[3.0, -4.0]])
        >>> pool(values, "l2").item(), pool(values, "sum").item()
        (5.0, -1.0)
    """
    if pooling == "l2":
        return torch.linalg.vector_norm(values, dim=-1)
    if pooling == "l1":
        return values.abs().sum(dim=-1)
    if pooling == "sum":
        return values.sum(dim=-1)
    if pooling == "mean":
        return values.mean(dim=-1)
    raise ValueError(f"pooling is {pooling!r}: choose 'l2', 'l1', 'sum' or 'mean'")


def vocabulary_norm(values: Tensor, table: Tensor) -> Tensor:
    """Returns, for each vector v, the L2 norm [..., T] of E v, where E is the embedding table.

    If v is the gradient with respect to a token's embedding, E v is the gradient with respect to the token's one-hot
    vector. The norm is computed as the square root of v' (E'E) v, where ' marks a transpose. E'E is computed once for
    all vectors. E v, which has as many entries as the vocabulary, is never computed.

    Args:
        values: [..., T, D], the vectors v.
        table: [V, D], the embedding table E.

    Example:
        >>> table = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
        >>> vocabulary_norm(torch.tensor([[3.0, 4.0]]), table)
        tensor([5.])
    """
    squares = ((values @ (table.T @ table)) * values).sum(dim=-1).clamp_min(0)
    positive = squares > 0  # at 0, the root has no finite derivative
    return torch.where(positive, squares.where(positive, 1.0).sqrt(), 0.0)


def restrict(scores: Tensor, mask: Tensor) -> Tensor:
    """Returns scores [B, K, T], set to 0 outside `mask` [B, T].

    Example:
        >>> restrict(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[True, False]]))
        tensor([[[1., 0.]]])
    """
    return scores.masked_fill(~mask.unsqueeze(1), 0.0)


def normalize(scores: Tensor, mask: Tensor) -> Tensor:
    """Returns scores [B, K, T] whose magnitudes sum to 1 inside `mask` [B, T]; scores outside `mask` are 0.

    Signs are kept, so non-negative scores sum to 1. A row that is all 0 stays 0.

    Example:
        >>> normalize(torch.tensor([[[1.0, -3.0, 9.0]]]), torch.tensor([[True, True, False]])).tolist()
        [[[0.25, -0.75, 0.0]]]
    """
    kept = restrict(scores, mask)
    total = kept.abs().sum(dim=-1, keepdim=True)
    return kept / total.masked_fill(total == 0, 1.0)


def to_words(scores: Tensor, word_ids: Tensor, pooling: WordPooling) -> Tensor:
    """Returns word scores [B, K, W] from token scores [B, K, T]; W is the largest number of words of a text.

    Texts with fewer words are padded with scores of 0.

    Args:
        scores: [B, K, T].
        word_ids: [B, T] long, the index of each token's word in the text, -1 outside words.
        pooling: "sum", "mean" or "max" of the scores of a word's tokens.

    Example:
        >>> to_words(torch.tensor([[[5.0, 1.0, 2.0, 4.0]]]), torch.tensor([[-1, 0, 0, 1]]), "sum")
        tensor([[[3., 4.]]])
    """
    num_words = int(word_ids.max()) + 1 if word_ids.numel() else 0
    # an additional column collects the scores of tokens outside words, and is then dropped
    places = word_ids.where(word_ids >= 0, num_words).unsqueeze(1).expand_as(scores)
    words = scores.new_zeros(*scores.shape[:2], num_words + 1)
    reduce = {"sum": "sum", "mean": "mean", "max": "amax"}[pooling]
    return words.scatter_reduce(-1, places, scores, reduce, include_self=False)[..., :num_words]


def from_words(word_scores: Tensor, word_ids: Tensor) -> Tensor:
    """Returns token scores [B, K, T] from word scores [B, K, W]: the score of each token's word, or 0 outside words.

    Example:
        >>> from_words(torch.tensor([[[3.0, 4.0]]]), torch.tensor([[-1, 0, 0, 1]]))
        tensor([[[0., 3., 3., 4.]]])
    """
    if not word_scores.shape[-1]:
        return word_scores.new_zeros(*word_scores.shape[:2], word_ids.shape[1])
    places = word_ids.clamp_min(0).unsqueeze(1).expand(-1, word_scores.shape[1], -1)
    return restrict(word_scores.gather(-1, places), word_ids >= 0)
