"""Averages of gradients along straight lines between embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from lightning_xai.functional.gradients.class_gradients import class_gradients
from lightning_xai.functional.gradients.target_gradients import EmbeddingModel
from lightning_xai.functional.network.chunking import even_slices, packed_rows, rows_per_forward
from lightning_xai.types import TextInputs

Quadrature = Literal["gausslegendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid"]
Baseline = Literal["fill", "zero"]
# number of points on a line in a preflight (a trial before the run). It is 2, because the trapezoid rule needs 2 points
PREFLIGHT_STEPS = 2


class PathEnds(NamedTuple):
    """The two ends of a straight line between embeddings. Its points are start + t * (end - start) for t in [0, 1].

    Example:
        >>> start, end = PathEnds(torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
        >>> (start + 0.25 * (end - start)).item()
        0.25
    """

    start: Tensor  # [B, T, D] embeddings of the baseline
    end: Tensor  # [B, T, D] embeddings of the input


class WeightedPoints(NamedTuple):
    """Points in [0, 1] and weights that sum to 1: sum(weight * f(point)) approximates the integral of f over [0, 1].

    Example:
        >>> points, weights = WeightedPoints([0.25, 0.75], [0.5, 0.5])
        >>> sum(weight * point for point, weight in zip(points, weights))  # the integral of x
        0.5
    """

    points: list[float]
    weights: list[float]


def quadrature_points(num_steps: int, method: Quadrature) -> WeightedPoints:
    """Returns the n = `num_steps` points in [0, 1] of a quadrature rule, and their weights.

    "riemann_left", "riemann_middle" and "riemann_right" take the points i / n, (i + 1/2) / n and (i + 1) / n for
    i = 0 ... n - 1, each with the weight 1 / n. "riemann_trapezoid" takes the points i / (n - 1), each with the weight
    1 / (n - 1), halved at both ends. "gausslegendre" integrates polynomials up to degree 2 n - 1 exactly.

    Raises:
        ValueError: `num_steps` is too small for the rule, or `method` is not the name of a rule.

    Example:
        >>> quadrature_points(4, "riemann_left")
        WeightedPoints(points=[0.0, 0.25, 0.5, 0.75], weights=[0.25, 0.25, 0.25, 0.25])
        >>> quadrature_points(3, "riemann_trapezoid")
        WeightedPoints(points=[0.0, 0.5, 1.0], weights=[0.25, 0.5, 0.25])
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
        raise ValueError(f"method is {method!r}: choose one of {get_args(Quadrature)}")
    return WeightedPoints(points.tolist(), weights.tolist())


def path_ends(model: EmbeddingModel, inputs: TextInputs, baseline: Baseline) -> PathEnds:
    """Returns the embeddings of the baseline and of the input.

    Args:
        model: the classifier.
        inputs: B texts.
        baseline: "fill" replaces explainable tokens by the encoder's fill token and keeps the other tokens; "zero"
            replaces the embedding of every token by zeros, except for the tokens of a prompt.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> ends = path_ends(random_bert(), TextInputs.of_ids([[1, 5]], special_ids=[1]), "fill")
        >>> torch.equal(ends.start[0, 0], ends.end[0, 0]), torch.equal(ends.start[0, 1], ends.end[0, 1])
        (True, False)
    """
    end = model.embed(inputs)
    if baseline == "zero":
        prompt = torch.zeros_like(inputs.attention_mask) if inputs.prompt_mask is None else inputs.prompt_mask
        return PathEnds(end.where(prompt.unsqueeze(-1), 0.0), end)
    return PathEnds(model.embed(replace(inputs, input_ids=inputs.baseline_ids)), end)


def path_gradients(
    model: EmbeddingModel,
    inputs: TextInputs,
    targets: Tensor,
    ends: PathEnds,
    quadrature: WeightedPoints,
    *,
    chunk_size: int | None,
    create_graph: bool = False,
) -> list[Tensor]:
    """Returns K tensors [B, T, D], one per target: the gradient of its logit, averaged along the line between `ends`.

    Args:
        model: the classifier.
        inputs: B texts.
        targets: [B, K] long, the explained classes.
        ends: the ends of the line.
        quadrature: the points on the line and their weights in the average.
        chunk_size: largest number of rows (examples times points) per forward pass; None lets the device decide. A
            forward pass has at least one point of every example, even if there are more than `chunk_size` examples.
        create_graph: whether the averages can be differentiated again.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6]], special_ids=[1])
        >>> start, end = ends = path_ends(model, inputs, "fill")
        >>> points = quadrature_points(50, "gausslegendre")
        >>> (average,) = path_gradients(model, inputs, torch.tensor([[1]]), ends, points, chunk_size=None)
        >>> change = (model(inputs, end).logits - model(inputs, start).logits)[0, 1]
        >>> torch.allclose(((end - start) * average).sum(), change, atol=1e-4)  # completeness
        True
    """
    start, end = ends
    batch = len(inputs)
    rows = rows_per_forward(chunk_size, end.shape[1], end.device, differentiated=True)
    totals: list[Tensor] = []
    line = (end - start).unsqueeze(1)  # [B, 1, T, D]
    for chunk in even_slices(len(quadrature.points), max(rows // batch, 1)):
        points = line.new_tensor(quadrature.points[chunk])
        row_weights = line.new_tensor(quadrature.weights[chunk]).repeat(batch)
        # `shift` is 0 and is added at all points, so the gradient with respect to it is the sum of the gradients at all
        # points. The gradient with respect to `end` would be wrong: the chain rule multiplies each point's gradient by
        # the point's position (0 to 1) on the line
        shift = torch.zeros_like(line, requires_grad=True)
        embeds = start.unsqueeze(1) + points.view(1, -1, 1, 1) * line + shift  # [B, points, T, D]
        gradients = class_gradients(
            model,
            inputs.repeat_interleave(len(points)),
            targets.repeat_interleave(len(points), dim=0),
            embeds.flatten(0, 1),
            wrt=shift,
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
    ends: PathEnds,
    quadrature: WeightedPoints,
    *,
    chunk_size: int | None,
) -> list[Tensor]:
    """Returns K tensors [B, T, D], one per target: for each token, the gradient averaged along the line of this token.

    One token at a time moves along its line, while all other tokens stay at `ends.end`. The gradients of the target's
    logit with respect to the moved token are averaged. Tokens outside `token_mask` never move; their averages are 0.

    Args:
        model: the classifier.
        inputs: B texts.
        targets: [B, K] long, the explained classes.
        ends: the ends of the tokens' lines.
        quadrature: the points on each token's line and their weights in the average.
        chunk_size: largest number of rows per forward pass (one row per moved token and point); None lets the device
            decide.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6]], special_ids=[1])
        >>> ends = PathEnds(*(embeds.detach() for embeds in path_ends(model, inputs, "fill")))
        >>> points, targets = quadrature_points(2, "riemann_middle"), torch.tensor([[1]])
        >>> (average,) = single_token_path_gradients(model, inputs, targets, ends, points, chunk_size=None)
        >>> average[0].any(dim=-1).tolist()  # the special token does not move
        [False, True, True]
    """
    start, end = ends
    totals = [torch.zeros_like(end) for _ in range(targets.shape[1])]
    lengths = inputs.attention_mask.sum(dim=1)
    example, position = inputs.token_mask.nonzero(as_tuple=True)
    longest_first = lengths[example].argsort(descending=True, stable=True)
    num_points = len(quadrature.points)
    example, position = (rows[longest_first].repeat_interleave(num_points) for rows in (example, position))
    points, weights = (end.new_tensor(values).repeat(len(longest_first)).unsqueeze(1) for values in quadrature)
    for rows in packed_rows(lengths[example].cpu(), chunk_size, end.device, differentiated=True):
        source, place, row = example[rows], position[rows], torch.arange(len(example[rows]), device=inputs.device)
        chunk = inputs[source].trim()
        embeds = end[source, : chunk.input_ids.shape[1]]
        embeds[row, place] = torch.lerp(start[source, place], end[source, place], points[rows])
        embeds.requires_grad_()
        for total, gradient in zip(totals, class_gradients(model, chunk, targets[source], embeds), strict=True):
            total.index_put_((source, place), weights[rows] * gradient[row, place], accumulate=True)
    return totals
