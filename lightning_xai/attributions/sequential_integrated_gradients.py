"""Gradients integrated along a line for one token at a time, while the other tokens stay unchanged."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.occlusion import Occlusion
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.gradients.path_gradients import (
    PREFLIGHT_STEPS,
    PathEnds,
    Quadrature,
    path_ends,
    quadrature_points,
    single_token_path_gradients,
)
from lightning_xai.functional.network.chunking import check_chunk_size
from lightning_xai.functional.scores.aggregation import pool
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


class SequentialIntegratedGradients(AttributionMethod):
    """Scores a token by the gradient of the class's logit, integrated along a line from the fill token to this token.

    Only the embedding of this token moves along the line; the other tokens stay unchanged. Tokens outside `token_mask`
    are not replaced and score 0.

    With pooling "sum" and multiply_by_inputs=True, the integral has a closed form: the difference between the logits at
    the ends of the line. Occlusion computes this difference with one forward pass for each token, instead of num_steps
    forward and backward passes. All other settings need the gradients on the line.

    Passes: with the closed form, N + 1 forward passes for N explainable tokens. Otherwise, num_steps forward passes for
    each token, and num_steps backward passes for each token and class.

    Args:
        pooling: how the D values of a token become one score: the signed "sum", or the norm "l1" or "l2".
        num_steps: number of points on each token's line; not used by the closed form.
        quadrature: the quadrature rule, which sets the points and their weights (see `quadrature_points`).
        multiply_by_inputs: False leaves out the factor (embedding of the token - embedding of the fill token).
        chunk_size: largest number of rows (tokens times points) in one forward pass. By default, it is chosen for the
            device. Scores do not depend on it.

    Reference: Enguehard (2023), "Sequential Integrated Gradients: a simple but effective method for explaining language
        models", arXiv 2305.15853.
    Differs: the published code has no closed form for the sum. Its experiments normalize sums, as `Transformed` does
        here, and pass the explained tokens through the embedding module twice.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
        >>> baseline = TextInputs.of_ids([[1, 0, 6, 2]])  # the fill token 0 replaces token 5
        >>> difference = (model(inputs).logits - model(baseline).logits)[0, 1]
        >>> method, targets = SequentialIntegratedGradients(), torch.tensor([[1]])
        >>> torch.allclose(method.attribute(model, inputs, targets).scores[0, 0, 1], difference, atol=1e-4)
        True
    """

    by_segment = True

    def __init__(
        self,
        pooling: Literal["sum", "l2", "l1"] = "sum",
        num_steps: int = 50,
        quadrature: Quadrature = "gausslegendre",
        multiply_by_inputs: bool = True,
        chunk_size: int | None = None,
    ) -> None:
        check_chunk_size(chunk_size)
        choices = {"pooling": Literal["sum", "l2", "l1"], "quadrature": Quadrature}
        require_choices(choices, {"pooling": pooling, "quadrature": quadrature})
        self._points = quadrature_points(num_steps, quadrature)
        self.pooling: Literal["sum", "l2", "l1"] = pooling
        self.num_steps = num_steps
        self.quadrature = quadrature
        self.multiply_by_inputs = multiply_by_inputs
        self.chunk_size = chunk_size

    def for_preflight(self) -> SequentialIntegratedGradients:
        few = copy.copy(self)
        few.num_steps = min(self.num_steps, PREFLIGHT_STEPS)
        few._points = quadrature_points(few.num_steps, self.quadrature)
        return few

    def _closed_form(self) -> Occlusion | None:
        """Returns Occlusion if it gives the same scores (with pooling "sum" and multiply_by_inputs), otherwise None."""
        if self.pooling == "sum" and self.multiply_by_inputs:
            return Occlusion(chunk_size=self.chunk_size)
        return None

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        closed_form = self._closed_form()
        if closed_form is not None:
            return closed_form.scores(model, inputs, targets)
        return self.line_scores(model, inputs, targets)

    def line_scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        """Returns scores [B, K, T] from gradients between baselines and input, even if a closed form exists."""
        start, end = (embeds.detach() for embeds in path_ends(model, inputs, "fill"))
        gradients = single_token_path_gradients(
            model, inputs, targets, PathEnds(start, end), self._points, chunk_size=self.chunk_size
        )
        factor = end - start if self.multiply_by_inputs else torch.ones_like(end)
        return torch.stack([pool(factor * gradient, self.pooling) for gradient in gradients], dim=1)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        closed_form = self._closed_form()
        if closed_form is not None:
            return closed_form.passes(num_tokens, num_targets)
        rows = num_tokens * self.num_steps
        return Passes(forward=rows, backward=rows * num_targets)
