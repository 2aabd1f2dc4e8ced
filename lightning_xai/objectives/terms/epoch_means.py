"""Means of losses over the examples of a training epoch, and the smallest mean of all epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


class EpochMeans:
    """Sums the weighted values of each loss over the current epoch.

    Attributes:
        sums: name -> [2], the sums of weight * value and of the weights on this process. None until `begin`, which is
            not called in a fit that resumes within an epoch, since the earlier batches are unknown.

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
        """Starts an epoch, without the sums of the last one."""
        self.sums = {}

    def add(self, name: str, values: Tensor, weights: Tensor) -> None:
        """Adds values [B] with weights [B]; ignored before `begin`."""
        if self.sums is not None:
            values, weights = values.detach().double(), weights.double()
            total = torch.stack([(values * weights).sum(), weights.sum()])
            self.sums[name] = self.sums[name] + total if name in self.sums else total

    def means(self, reduce: Callable[[Tensor], Tensor] = lambda sums: sums) -> dict[str, float]:
        """Returns name -> mean; NaN if no example of the epoch counted.

        Args:
            reduce: adds a tensor over all processes.
        """
        totals = {name: reduce(sums) for name, sums in (self.sums or {}).items()}
        return {name: float(total[0] / total[1]) for name, total in totals.items()}


def smaller(minima: Mapping[str, float], values: Mapping[str, float]) -> dict[str, float]:
    """Returns the smaller value of each name. If one argument lacks the name or has NaN, the other's value is taken.

    Example:
        >>> smaller({"train/igr": 2.0}, {"train/igr": 1.5, "val/igr": 3.0})
        {'train/igr': 1.5, 'val/igr': 3.0}
    """
    known = {name: value for name, value in values.items() if value == value}  # leaves out NaN
    return {**minima, **{name: min(value, minima.get(name, value)) for name, value in known.items()}}
