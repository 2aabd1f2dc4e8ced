"""The interface of every metric of attributions: exact under DDP, as its states are rows keyed by example and class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_xai.types import Attribution, Batch, Predict

Explained = Literal["all", "gold", "predicted"]


class AttributionMetric(Metric, ABC):
    """Measures rows (example, class), keeps one record a row, and aggregates the records at the end.

    Records are sorted by (index, class) and repeated ones dropped before they are aggregated in float64, so the result
    does not depend on batch size, on the number of processes or on the sampler's padding. NaN in a record means that
    the value is undefined for that row; it is skipped and counted as skipped.

    Args:
        explained: which of the attribution's rows count: all of them, those of gold classes, or of predicted classes.
        decision_threshold: probability from which a multi-label class counts as predicted; the callback sets it from
            the checkpoint.
    """

    full_state_update = False
    columns: ClassVar[tuple[str, ...]]  # names of a record's values

    def __init__(self, *, explained: Explained = "all", decision_threshold: float = 0.5) -> None:
        super().__init__()
        self.explained = explained
        self.decision_threshold = decision_threshold
        self.add_state("keys", default=[], dist_reduce_fx="cat")  # [n, 2] long: index, class
        self.add_state("records", default=[], dist_reduce_fx="cat")  # [n, len(columns)] float64

    @abstractmethod
    def measure(self, attribution: Attribution, batch: Batch, predict: Predict) -> Tensor:
        """Returns the records [B, K, len(columns)] of a batch; rows outside `attribution.target_mask` are ignored."""

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        """Returns the metric's values from all records [n, len(columns)]; by default the mean of every column."""
        return dict(zip(self.columns, records.nanmean(dim=0), strict=True))

    def update(self, attribution: Attribution, batch: Batch, predict: Predict) -> None:
        kept = attribution.target_mask & self.explained_rows(attribution, batch, predict)  # [B, K]
        attribution = Attribution(attribution.scores, attribution.targets, kept, attribution.token_mask)
        records = self.measure(attribution, batch, predict)
        index = batch.index.unsqueeze(1).expand_as(attribution.targets)
        self.keys.append(torch.stack([index[kept], attribution.targets[kept]], dim=-1))
        self.records.append(records[kept].double())

    def explained_rows(self, attribution: Attribution, batch: Batch, predict: Predict) -> Tensor:
        """Returns [B, K] bool: the rows that `explained` asks for."""
        targets = attribution.targets
        if self.explained == "all":
            return torch.ones_like(targets, dtype=torch.bool)
        if self.explained == "gold":
            if batch.labels.dim() == 1:
                return targets == batch.labels.unsqueeze(1)
            return batch.labels.gather(1, targets) > 0.5
        probs = predict(batch.inputs)
        if batch.labels.dim() == 1:
            return targets == probs.argmax(dim=1, keepdim=True)
        return probs.gather(1, targets) > self.decision_threshold

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Synchronizes the states; a rank that saw no example takes part with empty ones.

        A missing list state hangs the gather (torchmetrics #2463).
        """
        if not self.keys:
            self.keys.append(torch.zeros(0, 2, dtype=torch.long, device=self.device))
            self.records.append(torch.zeros(0, len(self.columns), dtype=torch.float64, device=self.device))
        super().sync(*args, **kwargs)

    def table(self) -> tuple[Tensor, Tensor]:
        """Returns the distinct keys [n, 2] in ascending order and their records [n, len(columns)] in float64."""
        keys = self.keys if isinstance(self.keys, Tensor) else torch.cat(self.keys or [torch.zeros(0, 2).long()])
        empty = torch.zeros(0, len(self.columns), dtype=torch.float64)
        records = self.records if isinstance(self.records, Tensor) else torch.cat(self.records or [empty])
        keys, records = keys.cpu(), records.cpu()
        if not len(keys):
            return keys, records
        distinct, inverse = keys.unique(dim=0, return_inverse=True)
        first = torch.full((len(distinct),), len(keys)).scatter_reduce(0, inverse, torch.arange(len(keys)), "amin")
        return distinct, records[first]

    def compute(self) -> dict[str, Tensor]:
        """Returns named values, with `num_examples` (rows counted) and `num_skipped` (rows with an undefined value)."""
        _, records = self.table()
        undefined = records.isnan().any(dim=1)
        values = self.aggregate(records)
        values["num_examples"] = torch.tensor(float(len(records) - int(undefined.sum())))
        values["num_skipped"] = torch.tensor(float(undefined.sum()))
        return values
