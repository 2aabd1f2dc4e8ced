"""What perturbations switch on and off together: the explainable tokens of a text, one by one or word by word."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.types import TextInputs

Unit = Literal["token", "word"]


def token_features(inputs: TextInputs, unit: Unit) -> Tensor:
    """Returns the feature [B, T] long of each token, from 0 in order of appearance, -1 outside `token_mask`.

    Explainable tokens of one word share a feature with the unit "word"; those outside words have their own.

    Raises:
        ValueError: words are asked for, but there are no word ids.
    """
    places = torch.arange(inputs.input_ids.shape[1], device=inputs.device).expand_as(inputs.input_ids)
    first = places
    if unit == "word":
        if inputs.word_ids is None:
            raise ValueError("inputs.word_ids is None: words cannot be erased; encode them, or set unit to 'token'")
        # the first explainable token of every word; a column more collects the tokens that are not explainable
        words = inputs.word_ids.where(inputs.word_ids >= 0, places + int(inputs.word_ids.max()) + 1)
        num_tokens = places.shape[1]
        starts = torch.full((len(inputs), int(words.max()) + 1), num_tokens, device=inputs.device)
        starts.scatter_reduce_(1, words, places.where(inputs.token_mask, num_tokens), "amin")
        first = starts.gather(1, words).clamp(max=num_tokens - 1)
    opens = inputs.token_mask & (first == places)
    return (opens.cumsum(dim=1).gather(1, first) - 1).masked_fill(~inputs.token_mask, -1)


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
