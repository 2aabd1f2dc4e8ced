"""Random scores: the baseline that every attribution method has to beat."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.seeds import check_seed, example_generator, example_indices
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs

Distribution = Literal["half_normal", "normal"]


def random_scores(inputs: TextInputs, targets: Tensor, *, seed: int) -> Tensor:
    """Returns scores [B, K, T] from a standard normal distribution, and 0 at padding.

    The T scores of an example and class depend only on the seed, the class, and the example's index and length.

    Raises:
        ValueError: `inputs.index` is None.

    Example:
        >>> inputs, targets = TextInputs.of_ids([[1, 5], [1, 6]]), torch.tensor([[0], [0]])
        >>> scores = random_scores(inputs, targets, seed=0)
        >>> torch.equal(random_scores(inputs[1:], targets[1:], seed=0), scores[1:])  # the second text alone
        True
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
    """Scores tokens at random; the same seed, example and class always give the same scores.

    Scores do not depend on the batch, on the process or on whether the run was resumed. The global random state is
    neither read nor changed.

    Passes: none.

    Args:
        seed: seed of the random scores, at least 0.
        distribution: "normal" draws scores from N(0, 1); "half_normal" takes the absolute values of such draws.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs, targets = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]]), torch.tensor([[0, 1]])
        >>> first, again, other = (Random(seed).attribute(model, inputs, targets).scores for seed in (0, 0, 1))
        >>> torch.equal(first, again), torch.equal(first, other)
        (True, False)
    """

    def __init__(self, seed: int = 0, distribution: Distribution = "half_normal") -> None:
        require_choices({"distribution": Distribution}, {"distribution": distribution})
        check_seed(seed)
        self.seed = seed
        self.distribution = distribution

    @property
    def has_sign(self) -> bool:
        return self.distribution == "normal"

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        scores = random_scores(inputs, targets, seed=self.seed)
        return scores.abs() if self.distribution == "half_normal" else scores

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=0, backward=0)
