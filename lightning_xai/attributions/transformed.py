"""Transforms the scores of another method: for example, takes absolute values, normalizes, or pools over words."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod, DifferentiableAttribution
from lightning_xai.functional.scores.aggregation import WordPooling, from_words, normalize, restrict, to_words
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import ForwardPass, Needs
from lightning_xai.types import Passes, TextInputs

Transform = Literal[
    "absolute", "relu", "zero_special", "zero_unexplained", "normalize", "words_sum", "words_mean", "words_max"
]
_WORD_POOLING: dict[Transform, WordPooling] = {"words_sum": "sum", "words_mean": "mean", "words_max": "max"}


def share_words(scores: Tensor, word_ids: Tensor | None, pooling: WordPooling) -> Tensor:
    """Returns scores [B, K, T] in which the tokens of a word share one score. Tokens outside words keep their scores.

    Args:
        scores: [B, K, T].
        word_ids: [B, T] long, the index of each token's word in the text, -1 outside words.
        pooling: the common score is the "sum", "mean" or "max" of the scores of the word's tokens.

    Raises:
        ValueError: `word_ids` is None.

    Example:
        >>> share_words(torch.tensor([[[1.0, 2.0, 4.0]]]), torch.tensor([[-1, 0, 0]]), "mean")
        tensor([[[1., 3., 3.]]])
    """
    if word_ids is None:
        raise ValueError("inputs.word_ids is None, so tokens cannot be pooled into words: use a fast tokenizer")
    shared = from_words(to_words(scores, word_ids, pooling), word_ids)
    return torch.where(word_ids.unsqueeze(1) >= 0, shared, scores)


def transform_scores(scores: Tensor, inputs: TextInputs, transform: Transform) -> Tensor:
    """Returns scores [B, K, T] after one transform; see `Transformed` for the transforms.

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 6]], special_ids=[1])
        >>> transform_scores(torch.tensor([[[2.0, -1.0, 3.0]]]), inputs, "zero_special")
        tensor([[[ 0., -1.,  3.]]])
    """
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
    return share_words(scores, inputs.word_ids, _WORD_POOLING[transform])


class Transformed(DifferentiableAttribution):
    """Scores tokens as `method` does, then applies `transforms` in the order given.

    Passes: those of `method`.

    Args:
        method: the method whose scores are transformed.
        transforms: "absolute" (absolute values); "relu" (negative scores become 0); "zero_special" (scores of special
            tokens become 0); "zero_unexplained" (scores of all tokens outside token_mask become 0); "normalize" (scores
            are scaled so that their magnitudes sum to 1 over all tokens of a text; to exclude tokens from this sum, put
            "zero_special" or "zero_unexplained" before "normalize"); "words_sum", "words_mean" or "words_max" (all
            tokens of a word get the sum, mean or maximum of their scores).

    Raises:
        ValueError: `transforms` is empty or has an unknown name. When scores are computed: tokens are pooled into words
            but `inputs.word_ids` is None, or a loss needs the scores but `method` is not differentiable.

    Example:
        >>> from lightning_xai.attributions.random import Random
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]]), torch.tensor([[0]])
        >>> signed = Random(distribution="normal")
        >>> method = Transformed(signed, ["absolute", "normalize"])
        >>> scores = method.attribute(random_bert(), inputs, targets).scores
        >>> magnitudes = signed.attribute(random_bert(), inputs, targets).scores.abs()
        >>> torch.allclose(scores, magnitudes / magnitudes.sum())
        True
    """

    def __init__(self, method: AttributionMethod, transforms: list[Transform]) -> None:
        unknown = [name for name in transforms if name not in get_args(Transform)]
        if unknown or not transforms:
            raise ValueError(f"transforms are {transforms}: choose one or more of {list(get_args(Transform))}")
        self.method = method
        self.transforms = transforms
        self.needs_attentions = method.needs_attentions

    @property
    def has_sign(self) -> bool:
        return self.method.has_sign and not {"absolute", "relu"} & set(self.transforms)

    def for_split(self, split: str) -> Transformed:
        """Returns the same transforms, applied to `method.for_split(split)`."""
        method = self.method.for_split(split)
        return self if method is self.method else Transformed(method, self.transforms)

    def for_preflight(self) -> Transformed:
        """Returns the same transforms, applied to `method.for_preflight()`."""
        method = self.method.for_preflight()
        return self if method is self.method else Transformed(method, self.transforms)

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        if isinstance(self.method, DifferentiableAttribution) or create_graph:
            scores = self._differentiable().scores(model, inputs, targets, create_graph=create_graph)
        else:
            scores = self.method.scores(model, inputs, targets)
        return self._transform(scores, inputs)

    @property
    def shares_pass(self) -> bool:
        return self._differentiable().shares_pass

    def needs(self, model: Classifier) -> Needs:
        return self._differentiable().needs(model)

    def from_pass(self, forward_pass: ForwardPass, targets: Tensor, *, create_graph: bool) -> Tensor:
        scores = self._differentiable().from_pass(forward_pass, targets, create_graph=create_graph)
        return self._transform(scores, forward_pass.inputs)

    def _differentiable(self) -> DifferentiableAttribution:
        if not isinstance(self.method, DifferentiableAttribution):
            raise ValueError(
                f"the scores of {type(self.method).__name__} are not differentiable, so no loss can train them: choose "
                "a differentiable method"
            )
        return self.method

    def _transform(self, scores: Tensor, inputs: TextInputs) -> Tensor:
        scores = restrict(scores, inputs.attention_mask)
        for transform in self.transforms:
            scores = transform_scores(scores, inputs, transform)
        return scores

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return self.method.passes(num_tokens, num_targets)
