"""Gradients averaged over random points between baselines and noisy inputs."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.aggregation import Pooling, pool
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.chunking import check_chunk_size, even_slices, rows_per_forward
from lightning_xai.functional.gradients import Baseline, path_ends, target_gradients
from lightning_xai.functional.seeds import example_generator, example_indices
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs

_METHOD = zlib.crc32(b"GradientSHAP")  # keeps its draws apart from those of other methods with the same seed


def random_points(
    inputs: TextInputs, samples: range, *, num_values: int, noise_std: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Returns places [B, n, 1, 1] drawn from U(0, 1) and noise [B, n, T, D] from N(0, noise_std ** 2), 0 at padding.

    Without noise it is one 0, of shape [B, 1, 1, 1].

    A draw depends on the seed, the example's index, its number of tokens and the sample's number only.

    Raises:
        ValueError: `inputs.index` is None.
    """
    mask = inputs.attention_mask.cpu()
    places = torch.zeros(len(inputs), len(samples), 1, 1)
    noise = torch.zeros(len(inputs), *((len(samples), mask.shape[1], num_values) if noise_std else (1, 1, 1)))
    for row, index in enumerate(example_indices(inputs)):
        for column, sample in enumerate(samples):
            generator = example_generator(seed, index, "GradientSHAP", [sample, _METHOD])
            places[row, column] = generator.random()
            if noise_std:
                shape = (int(mask[row].sum()), num_values)
                drawn = generator.standard_normal(shape, dtype=np.float32)
                noise[row, column, mask[row]] = noise_std * torch.from_numpy(drawn)
    return places.to(inputs.device), noise.to(inputs.device)


def expected_gradients(
    model: Classifier,
    inputs: TextInputs,
    targets: Tensor,
    start: Tensor,
    end: Tensor,
    *,
    draw: Callable[[range], tuple[Tensor, Tensor]],
    num_samples: int,
    chunk_size: int | None,
    create_graph: bool = False,
) -> list[Tensor]:
    """Returns K averages [B, T, D] of (noisy input - baseline) times the gradient at a random point between the two.

    Args:
        start: [B, T, D] embeddings of the baseline; `end` has those of the input.
        draw: gives the places and the noise of n of the samples, as `random_points` does.
        chunk_size: most rows (examples times samples) in one forward pass, see `rows_per_forward`.
    """
    rows = rows_per_forward(chunk_size, end.shape[1], end.device, differentiated=True)
    totals: list[Tensor] = []
    for some in even_slices(num_samples, max(rows // len(inputs), 1)):
        samples = range(num_samples)[some]
        places, noise = draw(samples)
        line = (end - start).unsqueeze(1) + noise.to(end)  # [B, n, T, D], or [B, 1, T, D] without noise
        # a stretch of all lines by the same amounts: its gradient is the sum over samples of line times gradient
        stretch = torch.zeros_like(end).unsqueeze(1).requires_grad_()
        embeds = start.unsqueeze(1) + (places.to(end) + stretch) * line
        logits = model(inputs.repeat_interleave(len(samples)), embeds.flatten(0, 1)).logits
        repeated = targets.repeat_interleave(len(samples), dim=0)
        gradients = target_gradients(logits, repeated, stretch, create_graph=create_graph)
        for column, gradient in enumerate(gradients):
            share = gradient.squeeze(1) / num_samples
            if column == len(totals):
                totals.append(share)
            else:
                totals[column] = totals[column] + share
    return totals


class GradientSHAP(DifferentiableAttribution):
    """Scores tokens by (input - baseline) times the class's gradient, averaged over random points between the two.

    An estimate of integrated gradients, complete on average only; noise on the input smooths it.

    Args:
        num_samples: points for each example.
        noise_std: standard deviation of the normal noise on every value of the input's embeddings, in their units.
        pooling: what a token makes of its D values; completeness on average holds for "sum".
        baseline: "fill" replaces explainable tokens by the encoder's fill token and keeps the others; "zero" has zero
            vectors everywhere.
        seed: non-negative; another seed is another draw.
        chunk_size: most rows (examples times samples) in one forward pass; None takes as many as suit the device.
            Results do not depend on it.

    Reference: Lundberg and Lee (2017), "A Unified Approach to Interpreting Model Predictions", arXiv 1705.07874; Erion
        et al. (2021), "Improving performance of deep learning models with axiomatic attribution priors and expected
        gradients", arXiv 1906.10670.
    Differs: captum draws from the global random state; here draws belong to (seed, example), all classes share them.
    """

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
            raise ValueError(f"num_samples is {num_samples}: give a number of points from 1")
        if noise_std < 0:
            raise ValueError(f"noise_std is {noise_std}: give a standard deviation from 0")
        if seed < 0:
            raise ValueError(f"seed is {seed}: give an integer from 0")
        check_chunk_size(chunk_size)
        require_choices({"pooling": Pooling, "baseline": Baseline}, {"pooling": pooling, "baseline": baseline})
        self.num_samples = num_samples
        self.noise_std = noise_std
        self.pooling = pooling
        self.baseline = baseline
        self.seed = seed
        self.chunk_size = chunk_size

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        rows = rows_per_forward(self.chunk_size, inputs.input_ids.shape[1], inputs.device, differentiated=True)
        parts = []
        for some in even_slices(
            len(inputs),
            max(rows // self.num_samples, 1),
            # only these D values are held at a time
        ):
            group = inputs[some].trim()
            start, end = path_ends(model, group, self.baseline)
            if not create_graph:
                start, end = start.detach(), end.detach()
            products = expected_gradients(
                model,
                group,
                targets[some],
                start,
                end,
                draw=partial(random_points, group, num_values=end.shape[-1], noise_std=self.noise_std, seed=self.seed),
                num_samples=self.num_samples,
                chunk_size=self.chunk_size,
                create_graph=create_graph,
            )
            pooled = torch.stack([pool(product, self.pooling) for product in products], dim=1)
            parts.append(F.pad(pooled, (0, inputs.input_ids.shape[1] - pooled.shape[-1])))
        return torch.cat(parts)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=self.num_samples, backward=self.num_samples * num_targets)
