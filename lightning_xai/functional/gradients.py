"""Gradients of class logits, one class at a time from one forward pass, and their integral along a path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from lightning_xai.functional.chunking import even_slices, packed_rows, rows_per_forward
from lightning_xai.types import ClassifierOutput, TextInputs

Quadrature = Literal["gausslegendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid"]
Baseline = Literal["fill", "zero"]


class EmbeddingModel(Protocol):
    """The part of a classifier that gradients need."""

    def embed(self, inputs: TextInputs) -> Tensor: ...

    def __call__(self, inputs: TextInputs, inputs_embeds: Tensor | None = None) -> ClassifierOutput: ...


def differentiable_embeds(model: EmbeddingModel, inputs: TextInputs, *, create_graph: bool) -> Tensor:
    """Returns embeddings [B, T, D] that require a gradient; with `create_graph` tied to the embedding table."""
    embeds = model.embed(inputs)
    if create_graph and embeds.requires_grad:
        return embeds
    return embeds.detach().requires_grad_()


def target_gradients(
    logits: Tensor,
    targets: Tensor,
    wrt: Tensor | tuple[Tensor, ...],
    *,
    row_weights: Tensor | None = None,
    create_graph: bool = False,
) -> Iterator[Any]:
    """Yields, for each of the K columns of `targets` [B, K], the gradient of every row's target logit.

    One backward pass a column; nothing but the current gradient is held, so pool it before taking the next.
    The graph of `logits` is freed after the last one unless `create_graph`.

    Args:
        logits: [B, C].
        wrt: the tensor to differentiate by, or a tuple of them; a gradient is of the same form.
        row_weights: [B] factors of the rows' logits, 1 by default.
    """
    chosen = logits.gather(1, targets)
    if row_weights is not None:
        chosen = chosen * row_weights.unsqueeze(1)
    num_targets = targets.shape[1]
    for column in range(num_targets):
        gradients = torch.autograd.grad(
            chosen[:, column].sum(),
            wrt,
            retain_graph=create_graph or column < num_targets - 1,
            create_graph=create_graph,
        )
        yield gradients if isinstance(wrt, tuple) else gradients[0]


def quadrature_points(num_steps: int, method: Quadrature) -> tuple[list[float], list[float]]:
    """Returns `num_steps` points in [0, 1] and their weights, which sum to 1.

    Raises:
        ValueError: too few steps for the rule.
    """
    fewest = 2 if method == "riemann_trapezoid" else 1
    if num_steps < fewest:
        raise ValueError(f"num_steps is {num_steps}: {method} needs at least {fewest}")
    steps = np.arange(num_steps)
    weights = np.full(num_steps, 1 / num_steps)
    if method == "gausslegendre":
        points, weights = np.polynomial.legendre.leggauss(num_steps)  # on [-1, 1]
        points, weights = (1 + points) / 2, weights / 2
    elif method == "riemann_left":
        points = steps / num_steps
    elif method == "riemann_middle":
        points = (steps + 0.5) / num_steps
    elif method == "riemann_right":
        points = (steps + 1) / num_steps
    elif method == "riemann_trapezoid":
        points = steps / (num_steps - 1)
        weights = np.full(num_steps, 1 / (num_steps - 1))
        weights[[0, -1]] /= 2
    else:
        raise ValueError(f"method is {method!r}: choose one of {Quadrature.__args__}")
    return points.tolist(), weights.tolist()


def path_ends(model: EmbeddingModel, inputs: TextInputs, baseline: Baseline) -> tuple[Tensor, Tensor]:
    """Returns the embeddings [B, T, D] of the baseline and of the input.

    Args:
        baseline: "fill" replaces explainable tokens by the encoder's fill token and keeps the others; "zero" has zero
            vectors everywhere.
    """
    end = model.embed(inputs)
    if baseline == "zero":
        return torch.zeros_like(end), end
    return model.embed(replace(inputs, input_ids=inputs.baseline_ids)), end


def path_gradients(
    model: EmbeddingModel,
    inputs: TextInputs,
    targets: Tensor,
    start: Tensor,
    end: Tensor,
    *,
    points: list[float],
    weights: list[float],
    chunk_size: int | None,
    create_graph: bool = False,
) -> list[Tensor]:
    """Returns K averages [B, T, D] of the gradient along the straight line from `start` to `end`.

    Args:
        start: [B, T, D] embeddings at point 0; `end` has those at point 1.
        points: places on the line, `weights` their weights in the average.
        chunk_size: most rows (examples times points) in one forward pass, see `rows_per_forward`; at least the number
            of examples is used.
    """
    batch = len(inputs)
    rows = rows_per_forward(chunk_size, end.shape[1], end.device, differentiated=True)
    totals: list[Tensor] = []
    line = (end - start).unsqueeze(1)  # [B, 1, T, D]
    for steps in even_slices(len(points), max(rows // batch, 1)):
        at, row_weights = line.new_tensor(points[steps]), line.new_tensor(weights[steps]).repeat(batch)
        # the gradient by a shift that all points share is the sum of the gradients at the points; the gradient by
        # `end` would carry a factor of the point itself
        shift = torch.zeros_like(line, requires_grad=True)
        embeds = start.unsqueeze(1) + at.view(1, -1, 1, 1) * line + shift  # [B, steps, T, D]
        logits = model(inputs.repeat_interleave(len(at)), embeds.flatten(0, 1)).logits
        gradients = target_gradients(
            logits,
            targets.repeat_interleave(len(at), dim=0),
            shift,
            row_weights=row_weights,
            create_graph=create_graph,
        )
        for column, gradient in enumerate(gradients):
            if column == len(totals):
                totals.append(gradient.squeeze(1))
            else:
                totals[column] = totals[column] + gradient.squeeze(1)
    return totals


def single_token_path_gradients(
    model: EmbeddingModel,
    inputs: TextInputs,
    targets: Tensor,
    start: Tensor,
    end: Tensor,
    *,
    points: list[float],
    weights: list[float],
    chunk_size: int | None,
) -> list[Tensor]:
    """Returns K averages [B, T, D] of each explainable token's gradient while it alone moves from `start` to `end`.

    The others stay at `end`; gradients are 0 outside of `token_mask`, where nothing moves.

    Args:
        start: [B, T, D] embeddings at point 0; `end` has those at point 1.
        points: places on each token's line, `weights` their weights in the average.
        chunk_size: most rows (tokens times points, of any examples) in one forward pass, see `rows_per_forward`.
    """
    totals = [torch.zeros_like(end) for _ in range(targets.shape[1])]
    lengths = inputs.attention_mask.sum(dim=1)
    example, position = inputs.token_mask.nonzero(as_tuple=True)
    longest_first = lengths[example].argsort(descending=True, stable=True)
    example, position = (rows[longest_first].repeat_interleave(len(points)) for rows in (example, position))
    at, factors = (end.new_tensor(values).repeat(len(longest_first)).unsqueeze(1) for values in (points, weights))
    for rows in packed_rows(lengths[example].cpu(), chunk_size, end.device, differentiated=True):
        source, place, row = example[rows], position[rows], torch.arange(len(example[rows]), device=inputs.device)
        chunk = inputs[source].trim()
        embeds = end[source, : chunk.input_ids.shape[1]]
        embeds[row, place] = torch.lerp(start[source, place], end[source, place], at[rows])
        embeds.requires_grad_()
        logits = model(chunk, embeds).logits
        for total, gradient in zip(totals, target_gradients(logits, targets[source], embeds), strict=True):
            total.index_put_((source, place), factors[rows] * gradient[row, place], accumulate=True)
    return totals
