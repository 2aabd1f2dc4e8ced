"""Computes means of losses over the examples of a training epoch, and the smallest of these means."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


class EpochMeans:
    """Sums the weighted values of each loss over the current epoch.

    Attributes:
        sums: name -> [2], the sum of weight * value and the sum of weights on this process. None before `begin` is
            called. A fit that resumes within an epoch does not call it, since the earlier batches are unknown.

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
        """Discards the sums of the last epoch and starts a new one."""
        self.sums = {}

    def add(self, name: str, values: Tensor, weights: Tensor) -> None:
        """Adds values [B] with weights [B] to the sums; does nothing before `begin` is called."""
        if self.sums is not None:
            values, weights = values.detach().double(), weights.double()
            total = torch.stack([(values * weights).sum(), weights.sum()])
            self.sums[name] = self.sums[name] + total if name in self.sums else total

    def means(self, reduce: Callable[[Tensor], Tensor] = lambda sums: sums) -> dict[str, float]:
        """Returns name -> mean; NaN if no example of the epoch counted.

        Args:
            reduce: function that sums a tensor over all processes.
        """
        totals = {name: reduce(sums) for name, sums in (self.sums or {}).items()}
        return {name: float(total[0] / total[1]) for name, total in totals.items()}


def smaller(minima: Mapping[str, float], values: Mapping[str, float]) -> dict[str, float]:
    """Returns the smaller value of each name, or the only one if a name is in one argument. NaN in `values` is ignored.

    Example:
        >>> smaller({"train/igr": 2.0}, {"train/igr": 1.5, "val/igr": 3.0})
        {'train/igr': 1.5, 'val/igr': 3.0}
    """
    known = {name: value for name, value in values.items() if value == value}  # leaves out NaN
    return {**minima, **{name: min(value, minima.get(name, value)) for name, value in known.items()}}
