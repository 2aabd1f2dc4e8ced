"""Shapley values of tokens or words, as the solution of a weighted regression."""

from __future__ import annotations

import copy
import math
from itertools import chain, combinations

import numpy as np
import torch
from torch import Tensor

from lightning_xai.attributions.coalitions import PREFLIGHT_SAMPLES, CoalitionAttribution, Coalitions
from lightning_xai.attributions.surrogates import additive_fit
from lightning_xai.functional.erasure.erase import Erasure
from lightning_xai.functional.erasure.perturbation import Output
from lightning_xai.functional.erasure.units import Unit
from lightning_xai.functional.seeds import check_seed, example_generator

SAMPLES_PER_UNIT, FEWEST_SAMPLES = 3, 64

_DRAWN_ELEMENTS = 2**22  # largest number of random numbers in memory at once


def size_shares(num_units: int) -> np.ndarray:
    """Returns one weight for each pair of coalition sizes s and M - s, for s = 1, 2, ..., M // 2 and M = `num_units`.

    A pair's weight is the sum of the Shapley kernel over all coalitions of s or M - s units, scaled so that all weights
    sum to 1.

    Example:
        >>> (11 * size_shares(4)).round()  # sizes 1 and 3 together, then size 2
        array([8., 3.])
    """
    sizes = np.arange(1, num_units // 2 + 1)
    shares = (num_units - 1) / (sizes * (num_units - sizes))
    shares[2 * sizes < num_units] *= 2  # sizes s and M - s have the same weight; here they are added
    return shares / shares.sum()


def coalitions_of_size(num_units: int, size: int) -> np.ndarray:
    """Returns all coalitions [N, M] bool of `size` units, and the complements of these coalitions.

    Example:
        >>> coalitions_of_size(3, 1).astype(int).tolist()
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0]]
    """
    members = np.fromiter(chain.from_iterable(combinations(range(num_units), size)), dtype=np.int64)
    members = members.reshape(-1, size)
    keep = np.zeros((len(members), num_units), dtype=bool)
    np.put_along_axis(keep, members, True, axis=1)
    return keep if 2 * size == num_units else np.concatenate([keep, ~keep])


def random_coalitions(num_units: int, sizes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Returns random coalitions [N, M] bool of the given `sizes` [N]. Coalitions of the same size are equally likely.

    Example:
        >>> random_coalitions(5, np.array([1, 4]), np.random.default_rng(0)).sum(axis=1)
        array([1, 4])
    """
    keep = np.zeros((len(sizes), num_units), dtype=bool)
    num_rows = max(_DRAWN_ELEMENTS // num_units, 1)
    for start in range(0, len(sizes), num_rows):
        rows = slice(start, start + num_rows)
        order = generator.random((len(sizes[rows]), num_units)).argsort(axis=1)
        np.put_along_axis(keep[rows], order, np.arange(num_units) < sizes[rows, None], axis=1)
    return keep


def shapley_coalitions(num_units: int, num_samples: int, generator: np.random.Generator) -> Coalitions:
    """Returns at most `num_samples` coalitions, neither empty nor full, with the weights of the Shapley kernel.

    Sizes are treated in pairs: 1 and M - 1, then 2 and M - 2, and so on. Let e be the expected number of samples
    with the sizes of a pair if all remaining samples were drawn at random. If e is at least the number of the pair's
    coalitions, all of these coalitions are enumerated, and the next pair follows. Otherwise, all remaining samples are
    drawn at random from the kernel, restricted to this pair and later pairs. Each drawn coalition is followed by its
    complement, except for the last one if the number of drawn coalitions is odd. All drawn coalitions have equal
    weights. If `num_samples` is at least 2^M - 2, all coalitions are enumerated.

    Example:
        >>> keep, weights = shapley_coalitions(3, 6, np.random.default_rng(0))
        >>> len(keep.unique(dim=0)), round(weights.sum().item(), 6)  # all coalitions but the empty and the full one
        (6, 1.0)
    """
    sizes, shares = np.arange(1, num_units // 2 + 1), size_shares(num_units)
    keep, weights = [np.zeros((0, num_units), dtype=bool)], [np.zeros(0)]
    samples_left, num_enumerated = num_samples, 0
    for size, share in zip(sizes.tolist(), shares, strict=True):
        count = math.comb(num_units, size) * (1 if 2 * size == num_units else 2)
        if samples_left * share / shares[num_enumerated:].sum() < count - 1e-6:
            break
        keep.append(coalitions_of_size(num_units, size))
        weights.append(np.full(count, share / count))
        samples_left, num_enumerated = samples_left - count, num_enumerated + 1
    if num_enumerated < len(sizes) and samples_left:
        remaining = shares[num_enumerated:]
        weight = remaining.sum()
        drawn_sizes = generator.choice(sizes[num_enumerated:], size=(samples_left + 1) // 2, p=remaining / weight)
        drawn = random_coalitions(num_units, drawn_sizes, generator)
        keep.append(np.stack([drawn, ~drawn], axis=1).reshape(-1, num_units)[:samples_left])
        weights.append(np.full(samples_left, weight / samples_left))
    return Coalitions(torch.from_numpy(np.concatenate(keep)), torch.from_numpy(np.concatenate(weights)))


class KernelSHAP(CoalitionAttribution):
    """Scores units by their Shapley values: the change of the output when a unit joins the units that a text keeps.

    The change is averaged over all coalitions of other units, with Shapley's weights.

    Scores sum to the output for the text minus the output for the text without any unit, whatever the number of
    samples. The scores are exact if all coalitions are evaluated, and an approximation otherwise.

    Passes: at most one forward pass for each sample, and two for the text and the empty coalition.

    Args:
        num_samples: number of coalitions for each example, not counting the full and the empty coalition. By default, 3
            for each unit, but at least 64. M units have only 2^M - 2 such coalitions; a larger number evaluates all.
        unit: see CoalitionAttribution, which also describes `erasure`, `output` and `chunk_size`.
        seed: seed of the random coalitions, at least 0.

    Reference: Lundberg and Lee (2017), "A Unified Approach to Interpreting Model Predictions", arXiv 1705.07874,
        Theorem 2; enumeration and complementary pairs as in the authors' shap package.
    Differs: with few samples, the shap package first selects units by a lasso. To get the right sum of scores, it
        computes one unit's score from the scores of the others. captum instead gives the full and the empty coalition a
        large weight, so its scores have the right sum only approximately. Edin et al. (2024) take absolute values of
        captum's scores, with 3 samples for each token.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 7, 2]], special_ids=[1, 2])
        >>> scores = KernelSHAP().attribute(random_bert(), inputs, torch.tensor([[1]])).scores
        >>> logits = random_bert()(TextInputs.of_ids([[1, 5, 6, 7, 2], [1, 0, 0, 0, 2]])).logits[:, 1]
        >>> torch.allclose(scores.sum(), logits[0] - logits[1], atol=1e-4)  # 0 is the fill token
        True
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
            raise ValueError(f"num_samples is {num_samples}: give at least 1, or null for 3 samples per unit")
        check_seed(seed)
        self.num_samples = num_samples
        self.seed = seed

    def for_preflight(self) -> KernelSHAP:
        few = copy.copy(self)
        few.num_samples = min(self.num_samples or PREFLIGHT_SAMPLES, PREFLIGHT_SAMPLES)
        return few

    def num_coalitions(self, num_units: int) -> int:
        num_samples = self.num_samples or max(SAMPLES_PER_UNIT * num_units, FEWEST_SAMPLES)
        return min(2 + num_samples, 2**num_units)

    def coalitions(self, num_units: int, index: int | None) -> Coalitions:
        generator = example_generator(self.seed, index, "KernelSHAP")
        keep, weights = shapley_coalitions(num_units, self.num_coalitions(num_units) - 2, generator)
        # the full and the empty coalition come first. Their weight is 0, because the fit reproduces their outputs
        # exactly anyway
        full_and_empty = torch.tensor([[True], [False]]).expand(-1, num_units)
        return Coalitions(torch.cat([full_and_empty, keep]), torch.cat([weights.new_zeros(2), weights]))

    def unit_scores(self, keep: Tensor, weights: Tensor, values: Tensor, num_units: Tensor) -> Tensor:
        exists = torch.arange(keep.shape[2]) < num_units.unsqueeze(1)
        full, empty = values[:, 0], values[:, 1]
        return additive_fit(keep, values - empty.unsqueeze(1), weights, full - empty, exists)
