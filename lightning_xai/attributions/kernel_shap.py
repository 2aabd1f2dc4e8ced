"""Shapley values of tokens or words, by the weighted regression whose solution they are."""

from __future__ import annotations

import math
from itertools import chain, combinations

import numpy as np
import torch
from torch import Tensor

from lightning_xai.attributions.coalitions import CoalitionAttribution
from lightning_xai.attributions.surrogates import additive_fit
from lightning_xai.functional.erasure import Erasure
from lightning_xai.functional.perturbation import Output
from lightning_xai.functional.seeds import example_generator
from lightning_xai.functional.units import Unit

SAMPLES_PER_UNIT, FEWEST_SAMPLES = 3, 64

_DRAWN_ELEMENTS = 2**22  # random numbers held at once


def size_shares(num_units: int) -> np.ndarray:
    """Returns the share of the Shapley kernel that coalitions of size 1, 2, ..., M // 2 have, complements included."""
    sizes = np.arange(1, num_units // 2 + 1)
    shares = (num_units - 1) / (sizes * (num_units - sizes))
    shares[2 * sizes < num_units] *= 2  # the middle size of an even number is its own complement's
    return shares / shares.sum()


def coalitions_of_size(num_units: int, size: int) -> np.ndarray:
    """Returns all coalitions [N, M] bool with `size` units, and those that lack so many."""
    members = np.fromiter(chain.from_iterable(combinations(range(num_units), size)), dtype=np.int64)
    members = members.reshape(-1, size)
    kept = np.zeros((len(members), num_units), dtype=bool)
    np.put_along_axis(kept, members, True, axis=1)
    return kept if 2 * size == num_units else np.concatenate([kept, ~kept])


def random_coalitions(num_units: int, sizes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Returns coalitions [N, M] bool of the given sizes [N], each with equal probability among those of its size."""
    kept = np.zeros((len(sizes), num_units), dtype=bool)
    step = max(_DRAWN_ELEMENTS // num_units, 1)
    for start in range(0, len(sizes), step):
        rows = slice(start, start + step)
        order = generator.random((len(sizes[rows]), num_units)).argsort(axis=1)
        np.put_along_axis(kept[rows], order, np.arange(num_units) < sizes[rows, None], axis=1)
    return kept


def shapley_coalitions(num_units: int, num_samples: int, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Returns at most `num_samples` coalitions [N, M] bool, neither empty nor full, and their weights [N].

    Sizes are enumerated from both ends while the samples that fall on a size by its share of the kernel would be as
    many as it has coalitions, which takes in all 2^M - 2 where they are no more than `num_samples`. Other samples are
    drawn by the kernel, each followed by its complement, and share what is left of the weight.
    """
    sizes, shares = np.arange(1, num_units // 2 + 1), size_shares(num_units)
    kept, weights = [np.zeros((0, num_units), dtype=bool)], [np.zeros(0)]
    left, done = num_samples, 0
    for size, share in zip(sizes.tolist(), shares, strict=True):
        count = math.comb(num_units, size) * (1 if 2 * size == num_units else 2)
        if left * share / shares[done:].sum() < count - 1e-6:
            break
        kept.append(coalitions_of_size(num_units, size))
        weights.append(np.full(count, share / count))
        left, done = left - count, done + 1
    if done < len(sizes) and left:
        rest = shares[done:].sum()
        drawn = generator.choice(sizes[done:], size=(left + 1) // 2, p=shares[done:] / rest)
        some = random_coalitions(num_units, drawn, generator)
        kept.append(np.stack([some, ~some], axis=1).reshape(-1, num_units)[:left])
        weights.append(np.full(left, rest / left))
    return torch.from_numpy(np.concatenate(kept)), torch.from_numpy(np.concatenate(weights))


class KernelSHAP(CoalitionAttribution):
    """Scores units by their Shapley values: a unit's average contribution to the output over all coalitions.

    Scores sum to the output of the whole text less that of the text without any unit, whatever the number of
    samples. They are exact where all coalitions are evaluated, an approximation otherwise.

    Args:
        num_samples: coalitions an example beside the whole and the empty one, 2^M - 2 at most for M units; None takes
            3 for each unit, 64 at least.
        unit: see CoalitionAttribution, like `erasure`, `output` and `chunk_size`.
        seed: non-negative; another seed is another draw.

    Reference: Lundberg and Lee (2017), "A Unified Approach to Interpreting Model Predictions", arXiv 1705.07874,
        Theorem 2; enumeration and complementary pairs as in the authors' shap package.
    Differs: the shap package selects units by a lasso when samples are few, and singles out one unit to meet the
        sum; captum meets the sum only approximately, by a large weight. Edin et al. (2024) take captum's with 3 samples
        a token, and absolute values.
    """

    def __init__(
        self,
        num_samples: int | None = None,
        unit: Unit = "token",
        erasure: Erasure = "mask",
        output: Output = "logit",
        seed: int = 0,
        chunk_size: int | None = None,
    ) -> None:
        super().__init__(unit, erasure, output, chunk_size)
        if num_samples is not None and num_samples < 1:
            raise ValueError(f"num_samples is {num_samples}: give a number from 1, or None for 3 a unit")
        if seed < 0:
            raise ValueError(f"seed is {seed}: give an integer from 0")
        self.num_samples = num_samples
        self.seed = seed

    def num_coalitions(self, num_units: int) -> int:
        asked = self.num_samples or max(SAMPLES_PER_UNIT * num_units, FEWEST_SAMPLES)
        return min(2 + asked, 2**num_units)

    def coalitions(self, num_units: int, index: int | None) -> tuple[Tensor, Tensor]:
        generator = example_generator(self.seed, index, "KernelSHAP")
        num_samples = self.num_coalitions(num_units) - 2
        some, weights = shapley_coalitions(num_units, num_samples, generator)
        ends = torch.tensor([[True], [False]]).expand(-1, num_units)  # whole and empty, which the fit meets exactly
        return torch.cat([ends, some]), torch.cat([weights.new_zeros(2), weights])

    def unit_scores(self, kept: Tensor, weights: Tensor, values: Tensor, num_units: Tensor) -> Tensor:
        real = torch.arange(kept.shape[2]) < num_units.unsqueeze(1)
        whole, empty = values[:, 0], values[:, 1]
        return additive_fit(kept, values - empty.unsqueeze(1), weights, whole - empty, real)
