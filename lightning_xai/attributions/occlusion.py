"""Output lost when a token, a word or a window of them is taken away."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.attributions.coalitions import CoalitionAttribution
from lightning_xai.functional.erasure import Erasure
from lightning_xai.functional.perturbation import Output
from lightning_xai.functional.units import Unit


def windows(num_units: int, window: int) -> Tensor:
    """Returns [W, M] bool: `window` neighboring units, moved on by one at a time; all, if there are fewer."""
    width = min(window, num_units)
    places = torch.arange(num_units)
    offsets = places - torch.arange(num_units - width + 1).unsqueeze(1)
    return (offsets >= 0) & (offsets < width)


def mean_over_windows(drops: Tensor, num_units: Tensor, window: int, width: int) -> Tensor:
    """Returns [B, M, K]: the mean of the drops [B, W, K] of the windows that cover each of M = `width` units."""
    num_windows = (num_units - window + 1).clamp(min=1).unsqueeze(1)  # [B, 1]
    places = torch.arange(width).expand(len(drops), -1)
    first = (places - window + 1).clamp(min=0)
    first = torch.minimum(first, num_windows - 1)
    stop = torch.minimum(places + 1, num_windows)
    totals = F.pad(drops.cumsum(dim=1), (0, 0, 1, 0))  # [B, W + 1, K]
    first, stop = (ends.unsqueeze(-1).expand(-1, -1, drops.shape[2]) for ends in (first, stop))
    return (totals.gather(1, stop) - totals.gather(1, first)) / (stop - first)


class Occlusion(CoalitionAttribution):
    """Scores a unit by the output of the whole text less the output without the unit.

    With a window, the drop is that of `window` neighboring units, and a unit's score is the mean over the windows
    that cover it.

    Args:
        unit: see CoalitionAttribution, like `erasure`, `output` and `chunk_size`.
        window: number of units taken away together.

    Reference: Zeiler and Fergus (2014), "Visualizing and Understanding Convolutional Networks", arXiv 1311.2901,
        section 4.2; one token at a time: Li et al. (2016), "Understanding Neural Networks through Representation
        Erasure", arXiv 1612.08220.
    Differs: Edin et al. (2024) take absolute values, for which there is Transformed.
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
            raise ValueError(f"window is {window}: give a number of units from 1")
        self.window = window

    def num_coalitions(self, num_units: int) -> int:
        return 1 + max(num_units - self.window + 1, 1)

    def coalitions(self, num_units: int, index: int | None) -> tuple[Tensor, Tensor]:
        kept = torch.cat([torch.ones(1, num_units, dtype=torch.bool), ~windows(num_units, self.window)])
        return kept, torch.ones(len(kept))

    def unit_scores(self, kept: Tensor, weights: Tensor, values: Tensor, num_units: Tensor) -> Tensor:
        drops = (values[:, :1] - values[:, 1:]).masked_fill(weights[:, 1:, None] == 0, 0.0)
        return mean_over_windows(drops, num_units, self.window, kept.shape[2])
