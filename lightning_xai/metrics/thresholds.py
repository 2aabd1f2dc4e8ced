"""Tunes thresholds on the validation split. A score above the threshold predicts a class, or selects a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Spacing = Literal["linear", "log"]


def threshold_grid(num_points: int, maximum: float, spacing: Spacing = "linear") -> Tensor:
    """Returns `num_points` ascending thresholds from 0 to `maximum`, as float64 [num_points].

    "linear" spaces the thresholds evenly. "log" starts with 0, and spaces the other thresholds evenly on a log scale,
    from 1e-6 times `maximum` to `maximum`.

    Example:
        >>> threshold_grid(3, 1.0).tolist()
        [0.0, 0.5, 1.0]
        >>> threshold_grid(4, 1.0, "log").tolist()
        [0.0, 1e-06, 0.001, 1.0]
    """
    if spacing == "linear":
        return torch.from_numpy(np.linspace(0, maximum, num_points))
    return torch.from_numpy(np.concatenate([[0.0], maximum * np.logspace(-6, 0, num_points - 1)]))


def threshold_counts(scores: Tensor, positives: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """Counts the positive and the negative elements whose scores are strictly above each of G thresholds.

    Returns the two counts, each of shape [G]. Memory grows with N + G, not with N times G.

    Args:
        scores: [N].
        positives: [N] bool, True for positive elements.
        thresholds: [G] ascending, of the scores' dtype.

    Example:
        >>> scores, positives = torch.tensor([0.2, 0.5, 0.9]), torch.tensor([False, True, True])
        >>> above = threshold_counts(scores, positives, thresholds=torch.tensor([0.0, 0.5]))
        >>> [counts.tolist() for counts in above]
        [[2, 1], [1, 0]]
    """
    exceeded = torch.bucketize(scores, thresholds)  # number of thresholds strictly below the score
    size = len(thresholds) + 1
    above = []
    for group in (exceeded[positives], exceeded[~positives]):
        counts = torch.bincount(group, minlength=size)
        above.append(counts.flip(0).cumsum(0).flip(0)[1:])
    return above[0], above[1]


def best_f1_threshold(thresholds: Tensor, num_hits: Tensor, num_selected: Tensor, num_gold: Tensor) -> float:
    """Returns the first threshold with the best F1.

    Args:
        thresholds: [G].
        num_hits: [G] number of gold elements above each threshold.
        num_selected: [G] number of elements above each threshold.
        num_gold: number of all gold elements, at least one.

    Example:
        >>> counts = torch.tensor([2, 2, 1]), torch.tensor([4, 2, 1]), torch.tensor(2)
        >>> best_f1_threshold(torch.tensor([0.0, 0.25, 0.5]), *counts)
        0.25
    """
    return float(thresholds[(2 * num_hits.double() / (num_selected + num_gold)).argmax()])


def micro_f1_threshold(probs: Tensor, gold: Tensor, num_points: int = 100) -> float:
    """Returns the first threshold with the best micro-F1 of `probs > threshold`; 0.5 if no class is gold.

    Args:
        probs: [B, C] probabilities.
        gold: [B, C] bool, the gold classes.
        num_points: number of thresholds that are tried, evenly spaced from 0 to 1.

    Example:
        >>> probs, gold = torch.tensor([[0.3, 0.6], [0.7, 0.8]]), torch.tensor([[False, True], [True, True]])
        >>> micro_f1_threshold(probs, gold, num_points=5)  # tries 0, 0.25, 0.5, 0.75 and 1
        0.5
    """
    if not gold.any():
        return 0.5
    thresholds = torch.linspace(0, 1, num_points, dtype=probs.dtype, device=probs.device)
    true_positives, false_positives = threshold_counts(probs.flatten(), gold.flatten(), thresholds)
    return best_f1_threshold(thresholds, true_positives, true_positives + false_positives, gold.sum())


@dataclass(frozen=True)
class ThresholdGrid:
    """Candidates for a threshold. The candidate with the best f1 on the validation split becomes the threshold.

    Args:
        num_points: number of candidates.
        maximum: largest candidate, in (0, 1].
        spacing: spacing of the thresholds; `threshold_grid` describes the options.

    Example:
        >>> ThresholdGrid(num_points=3, maximum=0.5, spacing="linear").thresholds.tolist()
        [0.0, 0.25, 0.5]
    """

    num_points: int = 301
    maximum: float = 1.0
    spacing: Spacing = "log"

    def __post_init__(self) -> None:
        if self.num_points < 2:
            raise ValueError(f"num_points is {self.num_points}: give at least 2")
        if not 0 < self.maximum <= 1:
            raise ValueError(f"maximum is {self.maximum}: give a number in (0, 1], as the scores of a text sum to 1")

    @property
    def thresholds(self) -> Tensor:
        """[G] float64, ascending from 0."""
        return threshold_grid(self.num_points, self.maximum, self.spacing)
