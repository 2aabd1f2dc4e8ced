"""Gradients averaged over random points between baselines and noisy inputs."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.gradients.class_gradients import class_gradients
from lightning_xai.functional.gradients.path_gradients import PREFLIGHT_STEPS, Baseline, PathEnds, path_ends
from lightning_xai.functional.network.chunking import check_chunk_size, even_slices, rows_per_forward
from lightning_xai.functional.scores.aggregation import Pooling, pool
from lightning_xai.functional.seeds import check_seed, example_generator, example_indices
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.types import Passes, TextInputs

_METHOD = zlib.crc32(b"GradientSHAP")  # part of the seed, so that no other method draws the same random numbers

# function of the indices of n samples; returns points [B, n, 1, 1], and noise [B, n, T, D] or zeros [B, 1, 1, 1]
Draw = Callable[[range], tuple[Tensor, Tensor]]


def random_points(
    inputs: TextInputs, samples: range, *, num_values: int, noise_std: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Returns points [B, n, 1, 1] drawn from U(0, 1), and noise [B, n, T, D] drawn from N(0, noise_std ** 2).

    A point is a position between the baseline (0) and the input (1). The noise is 0 at padding. A draw depends only
    on the seed, the index of the sample, and the index and length of the example.

    Args:
        inputs: B texts.
        samples: the indices of the n samples.
        num_values: D, the size of an embedding.
        noise_std: standard deviation of the noise; if it is 0, the noise has the shape [B, 1, 1, 1].
        seed: non-negative.

    Raises:
        ValueError: `inputs.index` is None.

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 6]])
        >>> points, noise = random_points(inputs, range(2), num_values=4, noise_std=0.1, seed=0)
        >>> points.shape, noise.shape
        (torch.Size([1, 2, 1, 1]), torch.Size([1, 2, 3, 4]))
        >>> second, _ = random_points(inputs, range(1, 2), num_values=4, noise_std=0.1, seed=0)
        >>> torch.equal(second, points[:, 1:])
        True
    """
    mask = inputs.attention_mask.cpu()
    points = torch.zeros(len(inputs), len(samples), 1, 1)
    noise = torch.zeros(len(inputs), *((len(samples), mask.shape[1], num_values) if noise_std else (1, 1, 1)))
    for row, index in enumerate(example_indices(inputs)):
        for column, sample in enumerate(samples):
            generator = example_generator(seed, index, "GradientSHAP", [sample, _METHOD])
            points[row, column] = generator.random()
            if noise_std:
                shape = (int(mask[row].sum()), num_values)
                normal = generator.standard_normal(shape, dtype=np.float32)
                noise[row, column, mask[row]] = noise_std * torch.from_numpy(normal)
    return points.to(inputs.device), noise.to(inputs.device)


def expected_gradients(
    model: Classifier,
    inputs: TextInputs,
    targets: Tensor,
    ends: PathEnds,
    draw: Draw,
    *,
    num_samples: int,
    chunk_size: int | None,
    create_graph: bool = False,
) -> list[Tensor]:
    """Returns (noisy input - baseline) times the gradient, averaged over random points: K tensors [B, T, D].

    Args:
        model: the network.
        inputs: B texts.
        targets: [B, K] long, the classes.
        ends: embeddings of the baselines and of the inputs.
        draw: function that takes the indices of n samples and returns their points and noise, as `random_points` does.
        num_samples: number of samples in the average.
        chunk_size: largest number of rows (examples times samples) in one forward pass; if None, it is chosen for the
            device.
        create_graph: whether the averages can be differentiated.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs, targets = random_bert(), TextInputs.of_ids([[1, 5, 6]]), torch.tensor([[0]])
        >>> end = model.embed(inputs).detach()
        >>> draw = lambda samples: (torch.rand(1, len(samples), 1, 1), torch.zeros(1, 1, 1, 1))
        >>> same = PathEnds(end, end)  # a line of length 0
        >>> expected_gradients(model, inputs, targets, same, draw, num_samples=2, chunk_size=None)[0].any().item()
        False
    """
    start, end = ends
    max_rows = rows_per_forward(chunk_size, end.shape[1], end.device, differentiated=True)
    totals: list[Tensor] = []
    for chunk in even_slices(num_samples, max(max_rows // len(inputs), 1)):
        samples = range(num_samples)[chunk]
        points, noise = draw(samples)
        line = (end - start).unsqueeze(1) + noise.to(end)  # [B, n, T, D], or [B, 1, T, D] without noise
        # `stretch` is 0. It is added to the point of every sample, and the sum is multiplied by `line`. By the chain
        # rule, the gradient of `stretch` is therefore `line` times the embeddings' gradient, summed over all samples
        stretch = torch.zeros_like(end).unsqueeze(1).requires_grad_()
        embeds = start.unsqueeze(1) + (points.to(end) + stretch) * line
        gradients = class_gradients(
            model,
            inputs.repeat_interleave(len(samples)),
            targets.repeat_interleave(len(samples), dim=0),
            embeds.flatten(0, 1),
            wrt=stretch,
            create_graph=create_graph,
        )
        for column, gradient in enumerate(gradients):
            share = gradient.squeeze(1) / num_samples
            if column == len(totals):
                totals.append(share)
            else:
                totals[column] = totals[column] + share
    return totals


class GradientSHAP(DifferentiableAttribution):
    """Scores tokens by (input - baseline) times the gradient of the class's logit, averaged over random points.

    The points lie on the line between baseline and input. They are random, so scores are complete (they sum to the
    difference between the logits of input and baseline) only on average, and only with pooling "sum". Noise on the
    input smooths the gradients.

    Passes: num_samples forward passes, and as many backward passes for each class.

    Args:
        num_samples: number of random points for each example.
        noise_std: standard deviation of the normal noise that is added to every value of the input's embeddings.
        pooling: how the D values of a token become one score (see `pool`).
        baseline: "fill" replaces explainable tokens by the encoder's fill token and keeps the others; "zero" sets all
            embeddings to 0.
        seed: seed of the random points and noise, at least 0.
        chunk_size: largest number of rows (examples times samples) in one forward pass. By default, it is chosen for
            the device. Scores do not depend on it.

    Reference: Lundberg and Lee (2017), "A Unified Approach to Interpreting Model Predictions", arXiv 1705.07874; Erion
        et al. (2021), "Improving performance of deep learning models with axiomatic attribution priors and expected
        gradients", arXiv 1906.10670.
    Differs: captum draws from the global random state; here the draws depend only on the seed and the example, and all
        classes share them.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
        >>> baseline = TextInputs.of_ids([[1, 0, 0, 2]])  # 0 is the fill token
        >>> difference = model(inputs).logits - model(baseline).logits
        >>> scores = GradientSHAP(num_samples=500).attribute(model, inputs, torch.tensor([[0, 1]])).scores
        >>> torch.allclose(scores.sum(dim=2), difference, atol=0.02)  # a random estimate
        True
    """

    by_segment = True

    def __init__(
        self,
        num_samples: int = 50,
        noise_std: float = 0.0,
        pooling: Pooling = "sum",
        baseline: Baseline = "fill",
        seed: int = 0,
        chunk_size: int | None = None,
    ) -> None:
        if num_samples < 1:
            raise ValueError(f"num_samples is {num_samples}: give at least 1")
        if noise_std < 0:
            raise ValueError(f"noise_std is {noise_std}: give a standard deviation of at least 0")
        check_seed(seed)
        check_chunk_size(chunk_size)
        require_choices({"pooling": Pooling, "baseline": Baseline}, {"pooling": pooling, "baseline": baseline})
        self.num_samples = num_samples
        self.noise_std = noise_std
        self.pooling: Pooling = pooling
        self.baseline: Baseline = baseline
        self.seed = seed
        self.chunk_size = chunk_size

    def for_preflight(self) -> GradientSHAP:
        few = copy.copy(self)
        few.num_samples = min(self.num_samples, PREFLIGHT_STEPS)
        return few

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        max_rows = rows_per_forward(self.chunk_size, inputs.input_ids.shape[1], inputs.device, differentiated=True)
        parts = []
        # a few examples are explained at a time, so that memory holds the embeddings of their inputs and baselines, and
        # not those of the whole batch
        for rows in even_slices(len(inputs), max(max_rows // self.num_samples, 1)):
            group = inputs[rows].trim()
            start, end = path_ends(model, group, self.baseline)
            products = expected_gradients(
                model,
                group,
                targets[rows],
                PathEnds(start, end) if create_graph else PathEnds(start.detach(), end.detach()),
                partial(random_points, group, num_values=end.shape[-1], noise_std=self.noise_std, seed=self.seed),
                num_samples=self.num_samples,
                chunk_size=self.chunk_size,
                create_graph=create_graph,
            )
            pooled = torch.stack([pool(product, self.pooling) for product in products], dim=1)
            parts.append(F.pad(pooled, (0, inputs.input_ids.shape[1] - pooled.shape[-1])))
        return torch.cat(parts)

    def needs(self, model: Classifier) -> Needs:
        return Needs(double_backward=True)  # a loss on the scores differentiates the gradients of `scores` again

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=self.num_samples, backward=self.num_samples * num_targets)
