"""Gradients integrated for one token at a time, while the others stay as they are."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.occlusion import Occlusion
from lightning_xai.functional.aggregation import pool
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.chunking import check_chunk_size
from lightning_xai.functional.gradients import Quadrature, path_ends, quadrature, single_token_path_gradients
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


class SequentialIntegratedGradients(AttributionMethod):
    """Scores a token by the gradient of the class's logit averaged while this token alone comes from the fill token.

    Along the line only its embedding moves, so every point is a text with one token between the fill token and itself.
    Tokens outside of `token_mask` are their own baseline: they score 0 and cost nothing.

    With pool "sum" the integral is known: by completeness on each token's own line it is the drop of the logit when the
    fill token replaces that token, which is Occlusion. One forward pass a token gives it exactly, where the line takes
    num_steps forward and backward passes a token. The norms need the line.

    Args:
        pool: what a token makes of its D values: their signed "sum", or their norm.
        num_steps: points on each token's line, where the line is needed.
        method: quadrature rule that places and weighs them.
        multiply_by_inputs: False leaves out the factor (input - baseline).
        chunk_size: most rows (tokens times points) in one forward pass; None takes as many as suit the device. Results
            do not depend on it.

    Reference: Enguehard (2023), "Sequential Integrated Gradients: a simple but effective method for explaining language
        models", arXiv 2305.15853.
    Differs: the published code takes the line for the sum as well; its experiments normalize the sums, which
        `Transformed` does, and embed twice what they explain, which this does not.
    """

    def __init__(
        self,
        pool: Literal["sum", "l2", "l1"] = "sum",
        num_steps: int = 50,
        method: Quadrature = "gausslegendre",
        multiply_by_inputs: bool = True,
        chunk_size: int | None = None,
    ) -> None:
        check_chunk_size(chunk_size)
        require_choices({"pool": Literal["sum", "l2", "l1"]}, {"pool": pool})
        self.points, self.weights = quadrature(num_steps, method)
        self.pool = pool
        self.num_steps = num_steps
        self.multiply_by_inputs = multiply_by_inputs
        self.chunk_size = chunk_size
        # by completeness, without the line
        self.exact = Occlusion(chunk_size=chunk_size) if pool == "sum" and multiply_by_inputs else None

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        if self.exact is not None:
            return self.exact.scores(model, inputs, targets)
        return self.line_scores(model, inputs, targets)

    def line_scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        """Returns scores [B, K, T] from the gradients on the line, whatever the pool is."""
        start, end = (embeds.detach() for embeds in path_ends(model, inputs, "fill"))
        gradients = single_token_path_gradients(
            model,
            inputs,
            targets,
            start,
            end,
            points=self.points,
            weights=self.weights,
            chunk_size=self.chunk_size,
        )
        factor = end - start if self.multiply_by_inputs else torch.ones_like(end)
        return torch.stack([pool(factor * gradient, self.pool) for gradient in gradients], dim=1)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        if self.exact is not None:
            return self.exact.passes(num_tokens, num_targets)
        rows = num_tokens * self.num_steps
        return Passes(forward=rows, backward=rows * num_targets)
