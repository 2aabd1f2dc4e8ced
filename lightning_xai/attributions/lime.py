"""Coefficients of a linear surrogate, fitted to versions of the text with random units left."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.attributions.coalitions import CoalitionAttribution
from lightning_xai.attributions.surrogates import lasso, ridge
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.erasure import Erasure
from lightning_xai.functional.perturbation import Output
from lightning_xai.functional.seeds import example_generator
from lightning_xai.functional.units import Unit

Similarity = Literal["cosine", "euclidean"]
Regressor = Literal["ridge", "lasso"]

SAMPLES_PER_UNIT, FEWEST_SAMPLES = 3, 32


def similarities(kept: Tensor, similarity: Similarity, kernel_width: float) -> Tensor:
    """Returns weights [N] in float64 of coalitions [N, M]: exp(-d^2 / (2 kernel_width^2)), 1 for the whole text.

    Args:
        similarity: d is one less the cosine between a coalition and the whole, sqrt(fraction kept), or the Euclidean
            distance between the two, sqrt(number taken away).
    """
    num_kept, num_units = kept.sum(dim=1).double(), kept.shape[1]
    if similarity == "cosine":
        distance = 1 - (num_kept / num_units).sqrt()
    else:
        distance = (num_units - num_kept).sqrt()
    return (-distance.square() / (2 * kernel_width**2)).exp()


class LIME(CoalitionAttribution):
    """Scores units by the coefficients of a regression of the output on which units are left.

    Each sample keeps every unit with probability 1/2 and counts by its similarity to the whole text.

    Args:
        num_samples: samples an example; None takes 3 for each unit, 32 at least.
        similarity: see `similarities`.
        kernel_width: see `similarities`.
        regressor: "ridge" or "lasso", with a free intercept; see functional.surrogates.
        alpha: positive strength of the penalty, as scikit-learn's regression of the same name has it.
        unit: see CoalitionAttribution, like `erasure`, `output` and `chunk_size`.
        seed: non-negative; another seed is another draw.

    Reference: Ribeiro et al. (2016), "'Why Should I Trust You?': Explaining the Predictions of Any Classifier", arXiv
        1602.04938, section 3.
    Differs: captum, with which Edin et al. (2024) take 3 samples a token and absolute values, measures the cosine
        between token ids, not between binary vectors, and fits a lasso; marcotcr/lime draws how many units go, has
        the whole text among its samples, a kernel width of 0.25 and a ridge with alpha 1.
    """

    def __init__(
        self,
        num_samples: int | None = None,
        similarity: Similarity = "cosine",
        kernel_width: float = 1.0,
        regressor: Regressor = "ridge",
        alpha: float = 0.01,
        unit: Unit = "token",
        erasure: Erasure = "mask",
        output: Output = "logit",
        seed: int = 0,
        chunk_size: int | None = None,
    ) -> None:
        super().__init__(unit, erasure, output, chunk_size)
        require_choices(
            {"similarity": Similarity, "regressor": Regressor}, {"similarity": similarity, "regressor": regressor}
        )
        if num_samples is not None and num_samples < 1:
            raise ValueError(f"num_samples is {num_samples}: give a number from 1, or None for 3 a unit")
        if kernel_width <= 0 or alpha <= 0:
            raise ValueError(f"kernel_width is {kernel_width} and alpha {alpha}: give numbers above 0")
        if seed < 0:
            raise ValueError(f"seed is {seed}: give an integer from 0")
        self.num_samples = num_samples
        self.similarity = similarity
        self.kernel_width = kernel_width
        self.regressor = regressor
        self.alpha = alpha
        self.seed = seed

    def samples_for(self, num_units: int) -> int:
        """Returns the samples that an example with so many units gets."""
        return self.num_samples or max(SAMPLES_PER_UNIT * num_units, FEWEST_SAMPLES)

    def num_coalitions(self, num_units: int) -> int:
        return min(self.samples_for(num_units), 2**num_units)

    def coalitions(self, num_units: int, index: int | None) -> tuple[Tensor, Tensor]:
        generator = example_generator(self.seed, index, "LIME")
        shape = (self.samples_for(num_units), num_units)
        kept = torch.from_numpy(generator.integers(2, size=shape, dtype=bool))
        return kept, similarities(kept, self.similarity, self.kernel_width)

    def unit_scores(self, kept: Tensor, weights: Tensor, values: Tensor, num_units: Tensor) -> Tensor:
        return {"ridge": ridge, "lasso": lasso}[self.regressor](kept, values, weights, alpha=self.alpha)
