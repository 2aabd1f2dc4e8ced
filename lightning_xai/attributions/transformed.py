"""Scores of another method, made absolute, normalized, restricted or word-level."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod, DifferentiableAttribution
from lightning_xai.functional.aggregation import WordPooling, from_words, normalize, restrict, to_words
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs

Transform = Literal[
    "absolute", "relu", "zero_special", "zero_unexplained", "normalize", "words_sum", "words_mean", "words_max"
]


def share_words(scores: Tensor, word_ids: Tensor | None, how: WordPooling) -> Tensor:
    """Returns scores [B, K, T] in which tokens of a word share one score; tokens outside words keep theirs.

    Raises:
        ValueError: there are no word ids.
    """
    if word_ids is None:
        raise ValueError("inputs.word_ids is None: words cannot be pooled; encode with a fast tokenizer")
    shared = from_words(to_words(scores, word_ids, how), word_ids)
    return torch.where(word_ids.unsqueeze(1) >= 0, shared, scores)


def transform_scores(scores: Tensor, inputs: TextInputs, transform: Transform) -> Tensor:
    """Returns scores [B, K, T] after one transform."""
    if transform == "absolute":
        return scores.abs()
    if transform == "relu":
        return scores.relu()
    if transform == "zero_special":
        return restrict(scores, ~inputs.special_tokens_mask)
    if transform == "zero_unexplained":
        return restrict(scores, inputs.token_mask)
    if transform == "normalize":
        return normalize(scores, inputs.attention_mask)
    return share_words(scores, inputs.word_ids, transform.removeprefix("words_"))


class Transformed(DifferentiableAttribution):
    """Scores tokens as `method` does, then applies `transforms` in the order given.

    Args:
        method: where the scores come from.
        transforms: "absolute"; "relu" (negative scores become 0); "zero_special" (special tokens);
            "zero_unexplained" (all tokens outside token_mask); "normalize" (magnitudes sum to 1 over a row's tokens, so
            put a zero_ transform before it to leave tokens out); "words_sum", "words_mean" or "words_max" (all tokens
            of a word share its score).
    """

    def __init__(self, method: AttributionMethod, transforms: list[Transform]) -> None:
        unknown = [name for name in transforms if name not in Transform.__args__]
        if unknown or not transforms:
            raise ValueError(f"transforms are {transforms}: give at least one of {list(Transform.__args__)}")
        self.method = method
        self.transforms = transforms
        self.needs_attentions = method.needs_attentions

    def for_split(self, split: str) -> Transformed:
        """Returns the same transforms of `method.for_split(split)`."""
        method = self.method.for_split(split)
        return self if method is self.method else Transformed(method, self.transforms)

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        """Returns scores [B, K, T].

        Raises:
            ValueError: `create_graph` is asked for, but `method` is not differentiable; or words of inputs without ids.
        """
        if isinstance(self.method, DifferentiableAttribution):
            scores = self.method.scores(model, inputs, targets, create_graph=create_graph)
        elif create_graph:
            raise ValueError(f"{type(self.method).__name__} has no graph to train through: use a differentiable method")
        else:
            scores = self.method.scores(model, inputs, targets)
        scores = restrict(scores, inputs.attention_mask)
        for transform in self.transforms:
            scores = transform_scores(scores, inputs, transform)
        return scores

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return self.method.passes(num_tokens, num_targets)
