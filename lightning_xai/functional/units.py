"""What perturbations switch on and off together: the explainable tokens of a text, one by one or word by word."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.functional.ranking import unit_ids
from lightning_xai.types import TextInputs

Unit = Literal["token", "word"]


def token_features(inputs: TextInputs, unit: Unit) -> Tensor:
    """Returns the feature [B, T] long of each token, from 0 in order of appearance, -1 outside `token_mask`.

    With the unit "word" a feature is what metrics erase as a word: a run of explainable tokens of one word, or a single
    one outside words.

    Raises:
        ValueError: words are asked for, but there are no word ids.
    """
    if unit == "token":
        return unit_ids(inputs.token_mask)
    if inputs.word_ids is None:
        raise ValueError("inputs.word_ids is None: words cannot be erased; encode them, or set unit to 'token'")
    return unit_ids(inputs.token_mask, inputs.word_ids)


def num_features(features: Tensor) -> Tensor:
    """Returns the number [B] long of features of each example, from `token_features` [B, T]; 0 where T is."""
    return F.pad(features, (0, 1), value=-1).amax(dim=1) + 1


def kept_tokens(features: Tensor, kept: Tensor) -> Tensor:
    """Returns [N, T] bool: the tokens whose feature is kept; tokens without a feature are.

    Args:
        features: [T] long, the feature of each token of one example, -1 for none.
        kept: [N, M] bool, the features that are kept.
    """
    outside = features < 0
    if not kept.shape[1]:
        return outside.expand(len(kept), -1)
    return kept[:, features.clamp(min=0)] | outside


def spread(feature_scores: Tensor, features: Tensor) -> Tensor:
    """Returns token scores [B, K, T]: a feature's score [B, K, M], divided equally among its tokens; 0 elsewhere.

    So the sum over a word's tokens is the word's score.
    """
    if not feature_scores.shape[-1]:
        return feature_scores.new_zeros(*feature_scores.shape[:2], features.shape[1])
    places = features.clamp(min=0)
    counts = torch.zeros(len(features), feature_scores.shape[-1], device=features.device)
    sizes = counts.scatter_add(1, places, (features >= 0).float()).gather(1, places)  # [B, T]
    scores = feature_scores.gather(-1, places.unsqueeze(1).expand(-1, feature_scores.shape[1], -1))
    return (scores / sizes.clamp(min=1).unsqueeze(1)).masked_fill((features < 0).unsqueeze(1), 0.0)
