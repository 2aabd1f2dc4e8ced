"""Gradients integrated for one token at a time, while the others stay as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.aggregation import pool
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.gradients import (
    Quadrature,
    packed_rows,
    path_ends,
    quadrature,
    single_token_path_gradients,
)
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


@torch.no_grad()
def fill_differences(model: Classifier, inputs: TextInputs, targets: Tensor, *, chunk_size: int | None) -> Tensor:
    """Returns the drop [B, K, T] of the logits of `targets` [B, K] when the fill token replaces one token alone.

    It is 0 outside of `token_mask`, for which nothing is computed.
    """
    lengths = inputs.attention_mask.sum(dim=1)
    # column 0 stands for the whole text, so that its logits come from the same forward passes
    versions = torch.cat([torch.ones_like(inputs.token_mask[:, :1]), inputs.token_mask], dim=1)
    example, version = versions.nonzero(as_tuple=True)
    longest_first = lengths[example].argsort(descending=True, stable=True)
    example, version = example[longest_first], version[longest_first]
    logits = []
    for rows in packed_rows(lengths[example].cpu(), chunk_size):
        source = example[rows]
        chunk = inputs[source]
        filled = torch.arange(chunk.input_ids.shape[1], device=inputs.device) == version[rows].unsqueeze(1) - 1
        chunk = replace(chunk, input_ids=chunk.baseline_ids.where(filled, chunk.input_ids)).trim()
        logits.append(model(chunk).logits.gather(1, targets[source]))
    found = torch.cat(logits)
    values = found.new_zeros(len(inputs), targets.shape[1], versions.shape[1])
    values[example, :, version] = found
    differences = values[..., :1] - values[..., 1:]
    return differences.masked_fill(~inputs.token_mask.unsqueeze(1), 0.0)


class SequentialIntegratedGradients(AttributionMethod):
    """Scores a token by the gradient of the class's logit averaged while this token alone comes from the fill token.

    Along the line only its embedding moves, so every point is a text with one token between the fill token and itself.
    Tokens outside of `token_mask` are their own baseline: they score 0 and cost nothing.

    With pool "sum" the integral is known: by completeness on each token's own line it is the drop of the logit when the
    fill token replaces that token. One forward pass a token gives it exactly, where the line takes n_steps forward and
    backward passes a token. The norms need the line.

    Args:
        pool: what a token makes of its D values: their signed "sum", or their norm.
        n_steps: points on each token's line, where the line is needed.
        method: quadrature rule that places and weighs them.
        multiply_by_inputs: False leaves out the factor (input - baseline).
        chunk_size: most rows (tokens times points) in one forward pass, fewer where texts are long; None takes all at
            once. Results do not depend on it.

    Reference: Enguehard (2023), "Sequential Integrated Gradients: a simple but effective method for explaining language
    models", arXiv 2305.15853, Eq. 2.
    Differs: the published code takes the line for the sum as well; its experiments normalize the sums, which
    `Transformed` does, and embed twice what they explain, which this does not.
    """

    def __init__(
        self,
        pool: Literal["sum", "l2", "l1"] = "sum",
        n_steps: int = 50,
        method: Quadrature = "gausslegendre",
        multiply_by_inputs: bool = True,
        chunk_size: int | None = 64,
    ) -> None:
        if chunk_size is not None and chunk_size < 1:
            raise ValueError(f"chunk_size is {chunk_size}: give a number of rows from 1, or None for all at once")
        require_choices({"pool": Literal["sum", "l2", "l1"]}, {"pool": pool})
        self.points, self.weights = quadrature(n_steps, method)
        self.pool = pool
        self.n_steps = n_steps
        self.multiply_by_inputs = multiply_by_inputs
        self.chunk_size = chunk_size

    @property
    def needs_line(self) -> bool:
        """Whether scores are more than differences of logits."""
        return self.pool != "sum" or not self.multiply_by_inputs

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        if not self.needs_line:
            return fill_differences(model, inputs, targets, chunk_size=self.chunk_size)
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
        if not self.needs_line:
            return Passes(forward=1 + num_tokens, backward=0)
        rows = num_tokens * self.n_steps
        return Passes(forward=rows, backward=rows * num_targets)
