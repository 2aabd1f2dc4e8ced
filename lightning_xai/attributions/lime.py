"""LIME: erases random units of a text, and fits a linear model to the outputs; its coefficients are the scores."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.attributions.coalitions import PREFLIGHT_SAMPLES, CoalitionAttribution, Coalitions
from lightning_xai.attributions.surrogates import lasso, ridge
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.erasure.erase import Erasure
from lightning_xai.functional.erasure.perturbation import Output
from lightning_xai.functional.erasure.units import Unit
from lightning_xai.functional.seeds import check_seed, example_generator

Similarity = Literal["cosine", "euclidean"]
Regressor = Literal["ridge", "lasso"]

SAMPLES_PER_UNIT, FEWEST_SAMPLES = 3, 32


def coalition_weights(keep: Tensor, similarity: Similarity, kernel_width: float) -> Tensor:
    """Returns float64 weights [N]: exp(-d^2 / (2 kernel_width^2)) for a coalition at distance d from the full text.

    Args:
        keep: [N, M] bool, the units that each coalition keeps.
        similarity: how the distance d between the binary vectors of coalition and text is measured. "cosine" is
            1 - sqrt(fraction of kept units), which is 1 minus the cosine; "euclidean" is sqrt(number of erased
            units).
        kernel_width: positive; a smaller width gives distant coalitions less weight.

    Example:
        >>> keep = torch.tensor([[True, True, True], [True, False, False]])
        >>> coalition_weights(keep, "euclidean", kernel_width=1.0)  # 1 and exp(-1)
        tensor([1.0000, 0.3679], dtype=torch.float64)
    """
    num_kept, num_units = keep.sum(dim=1).double(), keep.shape[1]
    if similarity == "cosine":
        distance = 1 - (num_kept / num_units).sqrt()
    else:
        distance = (num_units - num_kept).sqrt()
    return (-distance.square() / (2 * kernel_width**2)).exp()


class LIME(CoalitionAttribution):
    """Scores units by the coefficients of a linear regression that predicts the output from the kept units.

    A sample keeps each unit with probability 1/2, and is weighted by its similarity to the unerased text.

    Passes: at most one forward pass for each sample.

    Args:
        num_samples: number of samples for each example; by default, 3 samples for each unit, but at least 32.
        similarity: how the distance between a sample and the text is measured, "cosine" or "euclidean" (see
            `coalition_weights`).
        kernel_width: positive; a smaller width gives distant samples less weight.
        regressor: "ridge" or "lasso", both with an intercept that is not penalized.
        alpha: strength of the penalty, above 0, defined as in scikit-learn's Ridge or Lasso.
        unit: see CoalitionAttribution, which also describes `erasure`, `output` and `chunk_size`.
        seed: seed of the random samples, at least 0.

    Reference: Ribeiro et al. (2016), "'Why Should I Trust You?': Explaining the Predictions of Any Classifier", arXiv
        1602.04938, Section 3.
    Differs: captum measures the cosine between vectors of token ids, not between binary vectors, and fits a lasso. Edin
        et al. (2024) use captum with 3 samples for each token, and take absolute values. The authors' package
        marcotcr/lime draws the number of erased units at random, includes the unerased text among the samples, and uses
        a kernel width of 0.25 and a ridge with alpha 1.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[1, 5, 2]], special_ids=[1, 2])  # one unit: kept, or erased to the fill token 0
        >>> scores = LIME(alpha=1e-6).attribute(random_bert(), inputs, torch.tensor([[1]])).scores
        >>> logits = random_bert()(TextInputs.of_ids([[1, 5, 2], [1, 0, 2]])).logits[:, 1]
        >>> torch.allclose(scores[0, 0, 1], logits[0] - logits[1], atol=1e-4)
        True
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
            raise ValueError(f"num_samples is {num_samples}: give at least 1, or null for 3 samples per unit")
        if kernel_width <= 0 or alpha <= 0:
            raise ValueError(f"kernel_width is {kernel_width} and alpha {alpha}: give numbers above 0")
        check_seed(seed)
        self.num_samples = num_samples
        self.similarity: Similarity = similarity
        self.kernel_width = kernel_width
        self.regressor = regressor
        self.alpha = alpha
        self.seed = seed

    def for_preflight(self) -> LIME:
        few = copy.copy(self)
        few.num_samples = min(self.num_samples or PREFLIGHT_SAMPLES, PREFLIGHT_SAMPLES)
        return few

    def samples_for(self, num_units: int) -> int:
        """Returns the number of samples for an example with `num_units` units."""
        return self.num_samples or max(SAMPLES_PER_UNIT * num_units, FEWEST_SAMPLES)

    def num_coalitions(self, num_units: int) -> int:
        return min(self.samples_for(num_units), 2**num_units)

    def coalitions(self, num_units: int, index: int | None) -> Coalitions:
        generator = example_generator(self.seed, index, "LIME")
        shape = (self.samples_for(num_units), num_units)
        keep = torch.from_numpy(generator.integers(2, size=shape, dtype=bool))
        return Coalitions(keep, coalition_weights(keep, self.similarity, self.kernel_width))

    def unit_scores(self, keep: Tensor, weights: Tensor, values: Tensor, num_units: Tensor) -> Tensor:
        return {"ridge": ridge, "lasso": lasso}[self.regressor](keep, values, weights, alpha=self.alpha)
