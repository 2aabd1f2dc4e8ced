"""From embedding-level values to token scores, and from token scores to comparable, word-level or restricted ones."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Pooling = Literal["l2", "l1", "sum", "mean"]
WordPooling = Literal["sum", "mean", "max"]


def pool(values: Tensor, how: Pooling) -> Tensor:
    """Returns one score a token [..., T] from values [..., T, D]: a norm ("l2", "l1") or the signed "sum" or "mean"."""
    if how == "l2":
        return torch.linalg.vector_norm(values, dim=-1)
    if how == "l1":
        return values.abs().sum(dim=-1)
    if how == "sum":
        return values.sum(dim=-1)
    if how == "mean":
        return values.mean(dim=-1)
    raise ValueError(f"pool is {how!r}: choose 'l2', 'l1', 'sum' or 'mean'")


def vocabulary_norm(values: Tensor, table: Tensor) -> Tensor:
    """Returns the norm over the vocabulary of values' products with the embeddings, ||E v||, [..., T].

    Of a gradient it is the norm of the derivatives with respect to the one-hot token. E'E is built once, so that
    nothing of the vocabulary's size is kept for a token.

    Args:
        values: [..., T, D].
        table: [V, D], E.
    """
    squares = ((values @ (table.T @ table)) * values).sum(dim=-1).clamp_min(0)
    positive = squares > 0  # elsewhere the root has no derivative
    return torch.where(positive, squares.where(positive, 1.0).sqrt(), 0.0)


def restrict(scores: Tensor, mask: Tensor) -> Tensor:
    """Returns scores [B, K, T] that are 0 outside `mask` [B, T]."""
    return scores.masked_fill(~mask.unsqueeze(1), 0.0)


def normalize(scores: Tensor, mask: Tensor) -> Tensor:
    """Returns scores [B, K, T] whose magnitudes sum to 1 over `mask` [B, T], 0 outside of it.

    Signs are kept, so non-negative scores sum to 1. A row of zeros stays zero.
    """
    kept = restrict(scores, mask)
    total = kept.abs().sum(dim=-1, keepdim=True)
    return kept / total.masked_fill(total == 0, 1.0)


def to_words(scores: Tensor, word_ids: Tensor, how: WordPooling) -> Tensor:
    """Returns word scores [B, K, W] from token scores [B, K, T]; W is the largest number of words in a row.

    Args:
        word_ids: [B, T] long, the word of each token, -1 outside words.
        how: what a word makes of its tokens' scores. Words that a row does not have score 0.
    """
    num_words = int(word_ids.max()) + 1 if word_ids.numel() else 0
    # tokens outside words are collected in one more column, which is dropped
    places = word_ids.where(word_ids >= 0, num_words).unsqueeze(1).expand_as(scores)
    words = scores.new_zeros(*scores.shape[:2], num_words + 1)
    reduce = {"sum": "sum", "mean": "mean", "max": "amax"}[how]
    return words.scatter_reduce(-1, places, scores, reduce, include_self=False)[..., :num_words]


def from_words(word_scores: Tensor, word_ids: Tensor) -> Tensor:
    """Returns token scores [B, K, T] in which every token has the score [B, K, W] of its word, 0 outside words."""
    if not word_scores.shape[-1]:
        return word_scores.new_zeros(*word_scores.shape[:2], word_ids.shape[1])
    places = word_ids.clamp_min(0).unsqueeze(1).expand(-1, word_scores.shape[1], -1)
    return restrict(word_scores.gather(-1, places), word_ids >= 0)
