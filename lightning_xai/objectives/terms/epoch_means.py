"""Computes means of losses over the examples of a training epoch, and keeps the smallest means so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor


class EpochMeans:
    """Sums the weighted values of each loss over the current epoch.

    Attributes:
        sums: name -> [2], the sum of weight * value and the sum of weights on this process. None before `begin` is
            called. If a fit resumes within an epoch, the sums stay None until the next epoch, since the values of the
            earlier batches are not known.

    Example:
        >>> means = EpochMeans()
        >>> means.begin()
        >>> means.add("igr", torch.tensor([4.0, 1.0]), torch.tensor([1.0, 3.0]))
        >>> means.means()
        {'igr': 1.75}
    """

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] | None = None

    def begin(self) -> None:
        """Starts an epoch: discards the sums of the previous epoch."""
        self.sums = {}

    def add(self, name: str, values: Tensor, weights: Tensor) -> None:
        """Adds values [B] with weights [B] to the sums; does nothing before `begin` is called."""
        if self.sums is not None:
            values, weights = values.detach().double(), weights.double()
            total = torch.stack([(values * weights).sum(), weights.sum()])
            self.sums[name] = self.sums[name] + total if name in self.sums else total

    def means(self, reduce: Callable[[Tensor], Tensor] = lambda sums: sums) -> dict[str, float]:
        """Returns name -> weighted mean over the epoch; NaN if no example of the epoch had a weight above 0.

        Args:
            reduce: function that sums a tensor over all processes.
        """
        totals = {name: reduce(sums) for name, sums in (self.sums or {}).items()}
        return {name: float(total[0] / total[1]) for name, total in totals.items()}


def check_epoch_means(means: Mapping[str, float]) -> None:
    """Raises ValueError if no example of the epoch had a weight above 0 in a term.

    Example:
        >>> check_epoch_means({"igr": float("nan")})
        Traceback (most recent call last):
        ValueError: no example of this epoch has a weight above 0 in the term igr: give evidence for gold classes
    """
    for name, mean in means.items():
        if math.isnan(mean):
            raise ValueError(
                f"no example of this epoch has a weight above 0 in the term {name}: give evidence for gold classes"
            )


def smaller(minima: Mapping[str, float], values: Mapping[str, float]) -> dict[str, float]:
    """Returns, for each name, the smaller of its two values, or its only value if one argument lacks the name.

    NaN in `values` is ignored.

    Example:
        >>> smaller({"train/igr": 2.0}, {"train/igr": 1.5, "val/igr": 3.0})
        {'train/igr': 1.5, 'val/igr': 3.0}
    """
    known = {name: value for name, value in values.items() if value == value}  # without NaN, which differs from itself
    return {**minima, **{name: min(value, minima.get(name, value)) for name, value in known.items()}}
