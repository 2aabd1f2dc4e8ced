"""The interface of every metric of attributions: exact under DDP, as its states are rows keyed by example and class."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, Literal

import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_xai.functional.duplicates import distinct_rows
from lightning_xai.functional.targets import gold_pairs, predicted_classes
from lightning_xai.types import Attribution, Batch, Predict, TextInputs

Explained = Literal["all", "gold", "predicted"]


def with_special_tokens(inputs: TextInputs) -> Tensor:
    """Returns [B, T] bool: the tokens that may be explained, and the special ones that are not padding."""
    return inputs.token_mask | (inputs.special_tokens_mask & inputs.attention_mask)


class PredictOnce:
    """The explained network as the metrics of one batch see it; what they share is computed once.

    Shared are the probabilities of the batch's own inputs, which every definition compares with, and whatever metrics
    put into `memo`, a dictionary for results that do not depend on the attribution.

    Args:
        predict: gives the probabilities of any inputs.
        inputs: the batch's own inputs.
        decision_threshold: probability above which a multi-label class counts as predicted.
        pad_id: id of the padding token, which erasures write.
    """

    def __init__(
        self, predict: Predict, inputs: TextInputs, *, decision_threshold: float = 0.5, pad_id: int = 0
    ) -> None:
        self.predict = predict
        self.inputs = inputs
        self.decision_threshold = decision_threshold
        self.pad_id = pad_id
        self.probs: Tensor | None = None
        self.memo: dict[Hashable, Any] = {}

    def for_inputs(self, inputs: TextInputs) -> PredictOnce:
        """Returns this object if `inputs` are its own, else one of the same network for the other inputs."""
        if inputs is self.inputs:
            return self
        facts = {"decision_threshold": self.decision_threshold, "pad_id": self.pad_id}
        return PredictOnce(self.predict, inputs, **facts)

    def __call__(self, inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        """Returns probabilities [B, C]; embeddings are zeroed where `embed_mask` [B, T] is False.

        Raises:
            ValueError: one is not finite (the batch's examples are named), which a record would count as undefined.
        """
        if inputs is not self.inputs or embed_mask is not None:
            return self._finite(self.predict(inputs, embed_mask))
        if self.probs is None:
            self.probs = self._finite(self.predict(inputs))
        return self.probs

    def _finite(self, probs: Tensor) -> Tensor:
        if not probs.isfinite().all():
            raise ValueError(
                f"probabilities of examples {self.inputs.index.tolist()}, whole or erased, are not all finite: check "
                "the network's weights for overflow, or evaluate in float32"
            )
        return probs


class AttributionMetric(Metric, ABC):
    """Measures rows (example, class), keeps one record a row, and aggregates the records at the end.

    Records are sorted by (index, class) and repeated ones dropped before they are aggregated in float64, so the result
    does not depend on batch size, on the number of processes or on the sampler's padding. NaN in a record means that
    the value is undefined for that row; it is skipped and counted as skipped.

    Args:
        explained: which of the attribution's rows count: all of them, those of gold classes, or of predicted classes.
        name: of the metric in logs and tables; None takes the class's name in snake_case.
    """

    full_state_update = False
    needs_tuning: bool = False  # True where `compute` needs `tune_from` a metric of the validation split first
    columns: tuple[str, ...]  # names of a record's values

    def __init__(self, *, explained: Explained = "all", name: str | None = None) -> None:
        super().__init__(compute_with_cache=False)  # values change when tuned, which the cache ignores
        self.name = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()
        self.tuned: dict[str, float] = {}
        self.explained = explained
        self.add_state("keys", default=[], dist_reduce_fx="cat")  # [n, 2] long: index, class
        self.add_state("records", default=[], dist_reduce_fx="cat")  # [n, len(columns)] float64

    @abstractmethod
    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        """Returns the records [B, K, len(columns)] of a batch; rows outside `attribution.target_mask` are ignored."""

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        """Returns the metric's values from all records [n, len(columns)]; by default the mean of every column.

        The key "" stands for the metric itself; any other is appended to its name.
        """
        return dict(zip(self.columns, records.nanmean(dim=0), strict=True))

    def tune(self) -> dict[str, float]:
        """Returns what the records of this, the validation split's, metric settle for other splits."""
        return {}

    def tune_from(self, validation: AttributionMetric) -> None:
        """Takes over what `validation`, the same definition measured on the validation split, settles.

        Raises:
            ValueError: `validation` is another kind of metric.
        """
        if type(validation) is not type(self) or validation.columns != self.columns:
            raise ValueError(f"{self.name} cannot be tuned on {validation.name}: give the same metric of another split")
        with validation.sync_context(dist_sync_fn=validation.dist_sync_fn, process_group=validation.process_group):
            self.tuned = validation.tune()

    def update(self, attribution: Attribution, batch: Batch, predict: Predict) -> None:
        """Measures the rows of one batch.

        Args:
            attribution: scores [B, K, T] for the examples of `batch`.
            batch: the explained examples.
            predict: the network; anything but a PredictOnce is taken to have decision threshold 0.5 and padding id 0.
        """
        if isinstance(predict, PredictOnce):
            once = predict.for_inputs(batch.inputs)
        else:
            once = PredictOnce(predict, batch.inputs)
        kept = attribution.target_mask & self.explained_rows(attribution, batch, once)  # [B, K]
        attribution = Attribution(attribution.scores, attribution.targets, kept, attribution.token_mask)
        records = self.measure(attribution, batch, once)
        index = batch.index.unsqueeze(1).expand_as(attribution.targets)
        self.keys.append(torch.stack([index[kept], attribution.targets[kept]], dim=-1))
        self.records.append(records[kept].double())

    def explained_rows(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        """Returns [B, K] bool: the rows that `explained` asks for."""
        targets = attribution.targets
        if self.explained == "all":
            return torch.ones_like(targets, dtype=torch.bool)
        if self.explained == "gold":
            return gold_pairs(batch.labels, targets)
        probs, multilabel = predict(batch.inputs), batch.labels.dim() == 2
        chosen = predicted_classes(probs, multilabel=multilabel, decision_threshold=predict.decision_threshold)
        return chosen.gather(1, targets)

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
        first, _ = distinct_rows(keys)
        return keys[first], records[first]

    def compute(self) -> dict[str, Tensor]:
        """Returns values by their names in logs, with `num_examples` (rows counted) and `num_skipped`.

        A row is counted as skipped if one of its values is undefined.
        """
        _, records = self.table()
        undefined = int(records.isnan().any(dim=1).sum())
        values = {f"{self.name}/{key}" if key else self.name: value for key, value in self.aggregate(records).items()}
        values["num_examples"] = torch.tensor(float(len(records) - undefined))
        values["num_skipped"] = torch.tensor(float(undefined))
        return values
