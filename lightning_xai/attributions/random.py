"""Random scores: the floor that every attribution method has to beat."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.seeds import example_generator, example_indices
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs

Distribution = Literal["half_normal", "normal"]


def random_scores(inputs: TextInputs, targets: Tensor, *, seed: int) -> Tensor:
    """Returns standard normal scores [B, K, T], fixed by the seed, the example's index, the class and the row's length.

    Raises:
        ValueError: `inputs.index` is None.
    """
    mask = inputs.attention_mask.cpu()
    scores = torch.zeros(*targets.shape, mask.shape[1])
    for row, (index, classes) in enumerate(zip(example_indices(inputs), targets.tolist(), strict=True)):
        for column, target in enumerate(classes):
            generator = example_generator(seed, index, "Random", [target])
            scores[row, column, mask[row]] = torch.from_numpy(
                generator.standard_normal(int(mask[row].sum()), dtype=np.float32)
            )
    return scores.to(inputs.device)


class Random(AttributionMethod):
    """Scores tokens by a draw of their own, the same for a (seed, example, class) in any batch, process or resumed run.

    The global random state is neither read nor changed.

    Args:
        seed: non-negative; another seed is another draw.
        distribution: |N(0, 1)|, or N(0, 1) with its sign.
    """

    def __init__(self, seed: int = 0, distribution: Distribution = "half_normal") -> None:
        require_choices({"distribution": Distribution}, {"distribution": distribution})
        if seed < 0:
            raise ValueError(f"seed is {seed}: give an integer from 0")
        self.seed = seed
        self.distribution = distribution

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        scores = random_scores(inputs, targets, seed=self.seed)
        return scores.abs() if self.distribution == "half_normal" else scores

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=0, backward=0)
