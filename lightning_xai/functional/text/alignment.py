"""Transfers token scores between two tokenizers, by means of the characters that their tokens share."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.choices import require_choices

Pool = Literal["max", "mean"]


def overlaps(
    target: Tensor, source: Tensor, target_mask: Tensor | None = None, source_mask: Tensor | None = None
) -> Tensor:
    """Returns [T, W] long: for each target token, the indices of the source tokens that share a character with it.

    Rows are padded with -1. A target token that shares no character with any source token (for example, a token of
    white space) gets the nearest non-empty source token. Of two equally near source tokens, it gets the later one.
    `without_overlap` finds the target tokens that share no character.

    Args:
        target: [T, 2] character offsets of the tokens that get scores: start and exclusive end of each token, without
            white space at either end.
        source: [S, 2] character offsets, in the same text, of the tokens that have scores.
        target_mask: [T] bool, False at tokens outside the text, such as special tokens, for which the result is -1.
            None means that all tokens are in the text.
        source_mask: [S] bool, False at tokens outside the text, which never occur in the result. None means that all
            tokens are in the text.

    Example:
        >>> words, letters = torch.tensor([[0, 2], [3, 5]]), torch.tensor([[0, 1], [1, 2], [3, 5]])
        >>> overlaps(words, letters).tolist()
        [[0, 1], [2, -1]]
        >>> overlaps(letters, words).tolist()
        [[0], [0], [1]]
    """
    shared = _shared(target, source, source_mask)  # [T, S]
    candidates = _in_text(source, source_mask)
    alone = ~shared.any(dim=1)
    if alone.any() and candidates.any():
        gaps = _gaps(target[alone], source).masked_fill(~candidates, torch.iinfo(torch.long).max)
        nearest = gaps.shape[1] - 1 - gaps.flip(1).argmin(dim=1)  # the last source token with the smallest gap
        shared[alone] = torch.nn.functional.one_hot(nearest, gaps.shape[1]).bool()
    if target_mask is not None:
        shared &= target_mask.unsqueeze(1)
    width = max(int(shared.sum(dim=1).max()), 1) if shared.numel() else 1
    if width > shared.shape[1]:  # there is no source token: width is 1, and shared is [T, 0]
        return torch.full((len(target), 1), -1, device=target.device)
    source_tokens = (~shared).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
    return source_tokens.masked_fill(~shared.gather(1, source_tokens), -1)


def without_overlap(
    target: Tensor, source: Tensor, target_mask: Tensor | None = None, source_mask: Tensor | None = None
) -> Tensor:
    """Returns [T] bool, True at target tokens in the text that share no character with any source token.

    The arguments are those of `overlaps`.

    Example:
        >>> without_overlap(torch.tensor([[0, 2], [3, 3]]), torch.tensor([[0, 2], [3, 5]])).tolist()
        [False, True]
    """
    alone = ~_shared(target, source, source_mask).any(dim=1)
    return alone if target_mask is None else alone & target_mask


def carry(scores: Tensor, source_tokens: Tensor, pool: Pool) -> Tensor:
    """Returns differentiable scores [B, T] of target tokens: the maximum or mean of the scores of their source tokens.

    If several target tokens have the same source token, the whole score of this source token counts for each of them.

    Args:
        scores: [B, S], the scores of the source tokens.
        source_tokens: [B, T, W] long, the source tokens of each target token, from `overlaps`, padded with -1. A target
            token without source tokens gets 0.
        pool: "max" or "mean".

    Raises:
        ValueError: `pool` is neither "max" nor "mean".

    Example:
        >>> scores, source_tokens = torch.tensor([[1.0, 3.0, 5.0]]), torch.tensor([[[0, 1], [2, -1], [-1, -1]]])
        >>> carry(scores, source_tokens, "max").tolist(), carry(scores, source_tokens, "mean").tolist()
        ([[3.0, 5.0, 0.0]], [[2.0, 5.0, 0.0]])
    """
    require_choices({"pool": Pool}, {"pool": pool})
    if not scores.shape[1]:
        return scores.new_zeros(source_tokens.shape[:2])
    used = source_tokens >= 0
    taken = scores.gather(1, source_tokens.clamp(min=0).flatten(1)).view(source_tokens.shape)  # [B, T, W]
    if pool == "max":
        pooled = taken.masked_fill(~used, -torch.inf).amax(dim=-1)
    else:
        pooled = taken.masked_fill(~used, 0).sum(dim=-1) / used.sum(dim=-1).clamp(min=1)
    return pooled.masked_fill(~used.any(dim=-1), 0)


def shared_end(first: Tensor, second: Tensor) -> int:
    """Returns the character position up to which both encodings of a text, `first` and `second`, have tokens.

    The result is 0 if one of the encodings has no tokens.

    Args:
        first, second: [T, 2] character offsets of each encoding's tokens in the text, without special tokens.

    Example:
        >>> shared_end(torch.tensor([[0, 2], [3, 8]]), torch.tensor([[0, 5]]))
        5
    """
    return min(int(offsets[:, 1].max()) if len(offsets) else 0 for offsets in (first, second))


def _in_text(source: Tensor, mask: Tensor | None) -> Tensor:
    visible = source[:, 0] < source[:, 1]
    return visible if mask is None else visible & mask


def _shared(target: Tensor, source: Tensor, source_mask: Tensor | None) -> Tensor:
    """Returns [T, S] bool, True where a target token and a source token have a character in common."""
    begins = torch.maximum(target[:, :1], source[:, 0])
    ends = torch.minimum(target[:, 1:], source[:, 1])
    return (begins < ends) & _in_text(source, source_mask)


def _gaps(target: Tensor, source: Tensor) -> Tensor:
    """Returns [T, S], the number of characters between each target token and each source token; 0 if they overlap."""
    after, before = source[:, 0] - target[:, 1:], target[:, :1] - source[:, 1]
    return torch.maximum(after, before).clamp(min=0).long()
