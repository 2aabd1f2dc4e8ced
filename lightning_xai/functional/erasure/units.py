"""Units: the tokens or words of a text that are scored, ranked and erased as a whole."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.types import TextInputs

Unit = Literal["token", "word"]


def unit_ids(mask: Tensor, word_ids: Tensor | None = None) -> Tensor:
    """Returns [B, T] long: the index of each token's unit, counted from 0 in each row; -1 for tokens outside `mask`.

    Args:
        mask: [B, T] bool, the tokens that belong to units.
        word_ids: [B, T] long, the index of each token's word, -1 outside words. Neighboring tokens of the same word
            form a unit, and each token outside words is a unit by itself. None makes every token a unit.

    Example:
        >>> mask = torch.tensor([[False, True, True, True]])
        >>> unit_ids(mask).tolist(), unit_ids(mask, torch.tensor([[-1, 0, 0, 1]])).tolist()
        ([[-1, 0, 1, 2]], [[-1, 0, 0, 1]])
    """
    starts = mask.clone()
    if word_ids is not None:
        same = (word_ids[:, 1:] == word_ids[:, :-1]) & (word_ids[:, 1:] >= 0) & mask[:, :-1]
        starts[:, 1:] &= ~same
    return (starts.cumsum(dim=1) - 1).masked_fill(~mask, -1)


def token_units(inputs: TextInputs, unit: Unit) -> Tensor:
    """Returns [B, T] long: the index of the unit that each token belongs to; -1 outside the inputs' `token_mask`.

    Raises:
        ValueError: the unit is "word", but the inputs have no word ids.

    Example:
        >>> token_units(TextInputs.of_ids([[1, 5, 6]], special_ids=[1]), "token").tolist()
        [[-1, 0, 1]]
    """
    if unit == "token":
        return unit_ids(inputs.token_mask)
    if inputs.word_ids is None:
        raise ValueError("inputs.word_ids is None: encode the texts with word ids, or set unit to 'token'")
    return unit_ids(inputs.token_mask, inputs.word_ids)


def count_units(units: Tensor) -> Tensor:
    """Returns the number of units [B] in each row. `units` [B, T] is the result of `token_units`.

    Example:
        >>> count_units(torch.tensor([[-1, 0, 0, 1], [-1, -1, -1, -1]])).tolist()
        [2, 0]
    """
    return F.pad(units, (0, 1), value=-1).amax(dim=1) + 1


def kept_tokens(units: Tensor, keep: Tensor) -> Tensor:
    """Returns [R, T] bool: True at tokens of a unit that is kept, and at tokens without a unit.

    Args:
        units: [R, T] long, the index of each token's unit, -1 for tokens without a unit; [T] if all rows have the same
            units.
        keep: [R, M] bool, True where a unit is kept.

    Example:
        >>> kept_tokens(torch.tensor([-1, 0, 0, 1]), torch.tensor([[True, False], [False, True]])).tolist()
        [[True, True, True, False], [True, False, False, True]]
    """
    outside, places = units < 0, units.clamp(min=0)
    if not keep.shape[1]:
        return outside.expand(len(keep), -1)
    # `index_select` saves memory: for each of the R * T one-byte results, `gather` would need an 8-byte index
    kept = keep.index_select(1, places) if units.dim() == 1 else keep.gather(1, places)
    return kept | outside


def spread_over_tokens(unit_scores: Tensor, units: Tensor) -> Tensor:
    """Returns token scores [B, K, T] from unit scores [B, K, M]: each unit's score is divided equally among its tokens.

    So the scores of a unit's tokens sum to the unit's score. Tokens that belong to no unit get 0.

    Example:
        >>> spread_over_tokens(torch.tensor([[[3.0, 5.0]]]), torch.tensor([[-1, 0, 0, 1]])).tolist()
        [[[0.0, 1.5, 1.5, 5.0]]]
    """
    if not unit_scores.shape[-1]:
        return unit_scores.new_zeros(*unit_scores.shape[:2], units.shape[1])
    places = units.clamp(min=0)
    counts = torch.zeros(len(units), unit_scores.shape[-1], device=units.device)
    sizes = counts.scatter_add(1, places, (units >= 0).float()).gather(1, places)  # [B, T]
    scores = unit_scores.gather(-1, places.unsqueeze(1).expand(-1, unit_scores.shape[1], -1))
    return (scores / sizes.clamp(min=1).unsqueeze(1)).masked_fill((units < 0).unsqueeze(1), 0.0)
