"""Occlusion: the drop in the output when a token, a word or a window of neighboring units is erased."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.attributions.coalitions import CoalitionAttribution, Coalitions
from lightning_xai.functional.erasure.erase import Erasure
from lightning_xai.functional.erasure.perturbation import Output
from lightning_xai.functional.erasure.units import Unit


def windows(num_units: int, window: int) -> Tensor:
    """Returns all windows [W, M] bool of `window` neighboring units. If M <= `window`, one window has all M units.

    Example:
        >>> windows(4, window=2).int()
        tensor([[1, 1, 0, 0],
                [0, 1, 1, 0],
                [0, 0, 1, 1]], dtype=torch.int32)
    """
    width = min(window, num_units)
    every = torch.ones(num_units - width + 1, num_units, dtype=torch.bool)
    return every.triu().tril(width - 1)  # `every` is bool, because an int64 matrix for 6,000 units would take 288 MB


def mean_over_windows(drops: Tensor, num_units: Tensor, window: int, width: int) -> Tensor:
    """Returns, for each of M = `width` units, the mean drop [B, M, K] over the windows that cover this unit.

    Args:
        drops: [B, W, K], the drop in the output for each window; 0 beyond an example's last window.
        num_units: [B] long, number of units of each example.
        window: number of units in a window.
        width: M, the largest number of units of an example.

    Example:
        >>> drops = torch.tensor([[[1.0], [3.0]]])  # without units 0 and 1, and without units 1 and 2
        >>> mean_over_windows(drops, torch.tensor([3]), window=2, width=3).flatten()
        tensor([1., 2., 3.])
    """
    num_windows = (num_units - window + 1).clamp(min=1).unsqueeze(1)  # [B, 1]
    units = torch.arange(width).expand(len(drops), -1)
    first = (units - window + 1).clamp(min=0)
    first = torch.minimum(first, num_windows - 1)
    stop = torch.minimum(units + 1, num_windows)
    totals = F.pad(drops.cumsum(dim=1), (0, 0, 1, 0))  # [B, W + 1, K]
    first, stop = (ends.unsqueeze(-1).expand(-1, -1, drops.shape[2]) for ends in (first, stop))
    return (totals.gather(1, stop) - totals.gather(1, first)) / (stop - first)


class Occlusion(CoalitionAttribution):
    """Scores a unit by the output for the text minus the output for the text without the unit.

    If `window` is above 1, that many neighboring units are erased together. The score of a unit is then the mean drop
    in the output over all windows that cover the unit.

    Passes: one forward pass for the text, and at most one forward pass for each unit.

    Args:
        unit: see CoalitionAttribution, which also describes `erasure`, `output` and `chunk_size`.
        window: number of neighboring units that are erased together.

    Reference: Zeiler and Fergus (2014), "Visualizing and Understanding Convolutional Networks", arXiv 1311.2901,
        Section 4.2; one token at a time: Li et al. (2016), "Understanding Neural Networks through Representation
        Erasure", arXiv 1612.08220.
    Differs: Edin et al. (2024) take absolute values, which `Transformed` does with "absolute".

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
        >>> scores = Occlusion().attribute(random_bert(), inputs, torch.tensor([[1]])).scores
        >>> logits = random_bert()(TextInputs.of_ids([[1, 5, 6, 2], [1, 0, 6, 2]])).logits[:, 1]
        >>> torch.allclose(scores[0, 0, 1], logits[0] - logits[1])  # 0 is the fill token
        True
    """

    def __init__(
        self,
        unit: Unit = "token",
        window: int = 1,
        erasure: Erasure = "mask",
        output: Output = "logit",
        chunk_size: int | None = None,
    ) -> None:
        super().__init__(unit, erasure, output, chunk_size)
        if window < 1:
            raise ValueError(f"window is {window}: give at least 1 unit")
        self.window = window

    def num_coalitions(self, num_units: int) -> int:
        return 1 + max(num_units - self.window + 1, 1)

    def coalitions(self, num_units: int, index: int | None) -> Coalitions:
        keep = torch.cat([torch.ones(1, num_units, dtype=torch.bool), ~windows(num_units, self.window)])
        return Coalitions(keep, torch.ones(len(keep)))

    def unit_scores(self, keep: Tensor, weights: Tensor, values: Tensor, num_units: Tensor) -> Tensor:
        drops = (values[:, :1] - values[:, 1:]).masked_fill(weights[:, 1:, None] == 0, 0.0)
        return mean_over_windows(drops, num_units, self.window, keep.shape[2])
