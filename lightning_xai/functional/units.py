"""What perturbations switch on and off together: the explainable tokens of a text, one by one or word by word."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.functional.ranking import unit_ids
from lightning_xai.types import TextInputs

Unit = Literal["token", "word"]


def token_units(inputs: TextInputs, unit: Unit) -> Tensor:
    """Returns the unit [B, T] long of each token, from 0 in order of appearance, -1 outside `token_mask`.

    With the unit "word" a unit is what metrics erase as a word: a run of explainable tokens of one word, or a single
    one outside words.

    Raises:
        ValueError: words are asked for, but there are no word ids.
    """
    if unit == "token":
        return unit_ids(inputs.token_mask)
    if inputs.word_ids is None:
        raise ValueError("inputs.word_ids is None: words cannot be erased; encode them, or set unit to 'token'")
    return unit_ids(inputs.token_mask, inputs.word_ids)


def count_units(units: Tensor) -> Tensor:
    """Returns the number [B] long of units of each example, from `token_units` [B, T]; 0 where T is."""
    return F.pad(units, (0, 1), value=-1).amax(dim=1) + 1


def kept_tokens(units: Tensor, kept: Tensor) -> Tensor:
    """Returns [N, T] bool: the tokens whose unit is kept; tokens without a unit are.

    Args:
        units: [T] long, the unit of each token of one example, -1 for none.
        kept: [N, M] bool, the units that are kept.
    """
    outside = units < 0
    if not kept.shape[1]:
        return outside.expand(len(kept), -1)
    return kept[:, units.clamp(min=0)] | outside


def spread(unit_scores: Tensor, units: Tensor) -> Tensor:
    """Returns token scores [B, K, T]: a unit's score [B, K, M], divided equally among its tokens; 0 elsewhere.

    So the sum over a word's tokens is the word's score.
    """
    if not unit_scores.shape[-1]:
        return unit_scores.new_zeros(*unit_scores.shape[:2], units.shape[1])
    places = units.clamp(min=0)
    counts = torch.zeros(len(units), unit_scores.shape[-1], device=units.device)
    sizes = counts.scatter_add(1, places, (units >= 0).float()).gather(1, places)  # [B, T]
    scores = unit_scores.gather(-1, places.unsqueeze(1).expand(-1, unit_scores.shape[1], -1))
    return (scores / sizes.clamp(min=1).unsqueeze(1)).masked_fill((units < 0).unsqueeze(1), 0.0)
