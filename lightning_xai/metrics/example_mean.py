"""A weighted mean over the examples of a split. It is exact under DDP."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from lightning_xai.functional.erasure.duplicates import distinct_rows


class ExampleMean(Metric):
    """The weighted mean of one value per example. Each example counts once, even if a distributed sampler repeats it.

    Example:
        >>> metric = ExampleMean()
        >>> metric.update(torch.tensor([4.0, 1.0]), weights=torch.tensor([1.0, 3.0]), index=torch.tensor([0, 1]))
        >>> float(metric.compute())
        1.75
    """

    full_state_update = False
    keys: list[Tensor]  # state: tensors that concatenate to [n] long, the example indices
    values: list[Tensor]  # state: tensors that concatenate to [n] float64
    weights: list[Tensor]  # state: tensors that concatenate to [n] float64

    def __init__(self) -> None:
        super().__init__()
        for name in ("keys", "values", "weights"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, values: Tensor, weights: Tensor, index: Tensor) -> None:
        """Adds B examples.

        Args:
            values: [B], the value of each example.
            weights: [B], the weight of each example; 0 for an example that does not count.
            index: [B] row number of each example in its split.
        """
        self.keys.append(index.detach())
        self.values.append(values.detach().double())
        self.weights.append(weights.detach().double())

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Synchronizes the states over all ranks; a rank without examples sends empty tensors."""
        if not self.keys:
            self.keys.append(torch.zeros(0, dtype=torch.long, device=self.device))
            self.values.append(torch.zeros(0, dtype=torch.float64, device=self.device))
            self.weights.append(torch.zeros(0, dtype=torch.float64, device=self.device))
        super().sync(*args, **kwargs)

    def compute(self) -> Tensor:
        """Returns the weighted mean, a tensor of shape []; NaN if there are no examples or all weights are 0."""
        if not len(self.keys):
            return torch.tensor(float("nan"))
        first, _ = distinct_rows(dim_zero_cat(self.keys))
        values, weights = dim_zero_cat(self.values)[first], dim_zero_cat(self.weights)[first]
        return (values * weights).sum() / weights.sum()
