"""The base class of attribution metrics. Each pair (example, class) counts once, even if DDP repeats the example."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import asdict, is_dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from lightning_xai.functional.classes.targets import gold_pairs, predicted_classes
from lightning_xai.functional.erasure.duplicates import distinct_rows
from lightning_xai.functional.erasure.evaluate import predict_of
from lightning_xai.functional.own_parts import require_type
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.runs.names import check_name
from lightning_xai.types import Attribution, Batch, Predict, Selector, TextInputs

Explained = Literal["all", "gold", "predicted", "missed"]


def with_special_tokens(inputs: TextInputs) -> Tensor:
    """Returns [B, T] bool: True for tokens that may be explained, and for special tokens other than padding.

    Example:
        >>> with_special_tokens(TextInputs.of_ids([[1, 5], [1]], special_ids=[1])).tolist()
        [[True, True], [True, False]]
    """
    return inputs.token_mask | (inputs.special_tokens_mask & inputs.attention_mask)


class AttributionMetric(Metric, Selector, ABC):
    """Base class of metrics that measure a record (several numbers) for each row, and later aggregate all records.

    A row is a pair (example, class). Before aggregation, records are sorted by (index, class) and duplicates are
    dropped, so the result does not depend on batch size, number of processes or repeated examples. NaN in a record says
    that a value is undefined for the row. Means leave out undefined values. A row with an undefined value counts as
    skipped.

    Args:
        explained: which rows are measured: "all" rows, or only rows whose class is "gold", "predicted" (by the network)
            or "missed" (gold, but not predicted).
        name: name in logs and tables. If None, it is the name of the Python class in snake_case.

    Example:
        A subclass lists the names of a record's numbers in `columns`, and returns the numbers from `measure`.

        >>> class MeanScore(AttributionMetric):
        ...     columns = ("",)
        ...
        ...     def measure(self, attribution, batch, predict):
        ...         return attribution.scores.mean(dim=-1, keepdim=True)
        >>> inputs = TextInputs.of_ids([[5, 6], [7, 8]])
        >>> attribution = Attribution.of_scores([[[1.0, 3.0]], [[2.0, 6.0]]], inputs.token_mask)
        >>> metric = MeanScore()
        >>> metric.update(attribution, Batch(inputs, labels=torch.tensor([0, 0])), predict=None)
        >>> {name: float(value) for name, value in metric.compute().items() if value}
        {'mean_score': 3.0, 'num_examples': 2.0, 'num_examples/mean_score': 2.0}
    """

    full_state_update = False
    reads_rationales: bool = False  # True if `measure` compares scores with human evidence
    needs_tuning: bool = False  # True if `tune_from` must be called before `compute`
    columns: tuple[str, ...]  # names of the numbers in a record
    selections: tuple[str, ...] = ()  # prefixes of value names; values with such a prefix use only some rows
    keys: list[Tensor]  # torchmetrics state, concatenated to [n, 2] long: example index and class of each row
    records: list[Tensor]  # torchmetrics state, concatenated to [n, len(columns)] float64
    evidence_cut: list[Tensor]  # torchmetrics state, concatenated to [n] bool: the results of `cut_rows`

    def __init__(self, *, explained: Explained = "all", name: str | None = None) -> None:
        super().__init__(compute_with_cache=False)  # tuning changes the values, so a cached result would be stale
        self.tuned: dict[str, float] = {}
        self.add_state("keys", default=[], dist_reduce_fx="cat")
        self.add_state("records", default=[], dist_reduce_fx="cat")
        self.add_state("evidence_cut", default=[], dist_reduce_fx="cat")
        self._no_settings = frozenset(vars(self))  # attributes that hold no settings
        self.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower() if name is None else name
        check_name("a metric's name", self.name)
        self.explained = explained

    def __getattr__(self, name: str) -> Any:
        if name == "columns":
            raise ValueError(
                f"{type(self).__name__} has no `columns`: name the numbers that `measure` returns for a row, such as "
                'columns = ("",) for a single number'
            )
        return super().__getattr__(name)

    def settings(self) -> dict[str, Any]:
        """Returns the class name, and the public attributes that are dataclasses or have JSON types.

        Example:
            >>> from lightning_xai.metrics.faithfulness import Comprehensiveness
            >>> from lightning_xai.metrics.top_units import Percentages
            >>> settings = Comprehensiveness(Percentages([20]), erasure="mask").settings()
            >>> settings["erasure"], settings["over_sizes"], settings["sizes"]["percentages"]
            ('mask', 'mean', [20])
        """
        settings: dict[str, Any] = {"class": type(self).__name__}
        for name, value in sorted(vars(self).items()):
            if name.startswith("_") or name in self._no_settings:
                continue
            if is_dataclass(value) and not isinstance(value, type):
                settings[name] = {"class": type(value).__name__, **asdict(value)}
            elif isinstance(value, str | int | float | bool | list | tuple | dict | None):
                settings[name] = value
        return settings

    @abstractmethod
    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        """Returns the records [B, K, len(columns)] of a batch; rows outside `attribution.target_mask` are ignored."""

    def passes(self, num_units: int, num_methods: int) -> float:
        """Returns the approximate number of forward passes for measuring one row (example, class); 0 by default.

        The row's text has `num_units` units. The result, a sum over `num_methods` methods, is used for time estimates.
        """
        return 0.0

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        """Returns the metric's values from all records [n, len(columns)]; by default the mean of every column.

        In logs, a value with the key "" has the metric's name. Any other key is appended to the metric's name.
        """
        return dict(zip(self.columns, records.nanmean(dim=0), strict=True))

    def tune(self) -> dict[str, float]:
        """Returns settings tuned on this metric's validation rows. If it raises ValueError, results lack the metric."""
        return {}

    def tune_from(self, validation: AttributionMetric) -> None:
        """Takes the tuned settings from `validation`, the same metric on the validation split.

        Raises:
            ValueError: the class or the columns of `validation` differ from those of this metric.
        """
        if type(validation) is not type(self) or validation.columns != self.columns:
            raise ValueError(f"metric {validation.name} cannot tune {self.name}: use the same metric for validation")
        with validation.sync_context(dist_sync_fn=validation.dist_sync_fn, process_group=validation.process_group):
            self.tuned = validation.tune()

    def require_selection(self) -> None:
        """Checks that the metric can select explanations.

        Raises:
            ValueError: the metric reads gold labels or rationales, has several values, or lacks `higher_is_better`.
        """
        name, remedy = type(self).__name__, f"choose another metric than {self.name} to select explanations"
        if self.explained in ("gold", "missed") or self.reads_rationales:
            raise ValueError(f"{name} reads gold labels or rationales: {remedy}")
        if self.higher_is_better is None:
            raise ValueError(f"{name} does not say whether higher is better: {remedy}")
        if set(self.aggregate(torch.zeros(1, len(self.columns), dtype=torch.float64))) != {""}:
            raise ValueError(f"{name} has several values: {remedy}, or set `aggregate: mean` if it has this argument")

    def rate(self, attribution: Attribution, batch: Batch, network: Any) -> Tensor:
        """Returns [B, K] on the CPU: the metric's value for each row alone. `network` is the explained Classifier."""
        once = PredictOnce(predict_of(network), batch.inputs, pad_id=network.pad_id)
        records = self.measure(attribution, batch, once).double().cpu()
        values = [self.aggregate(record.unsqueeze(0))[""] for record in records.flatten(0, 1)]
        return torch.stack(values).view(records.shape[:2]) if values else records.new_zeros(records.shape[:2])

    def update(self, attribution: Attribution, batch: Batch, predict: Predict) -> None:
        """Measures the rows of one batch.

        Args:
            attribution: scores [B, K, T] for the examples of `batch`.
            batch: the explained examples.
            predict: a PredictOnce or a plain function. For a plain function, decision threshold 0.5 and pad id 0 apply.

        Raises:
            ValueError: `measure` returned no tensor of shape [B, K, len(columns)].
        """
        once = predict if isinstance(predict, PredictOnce) else PredictOnce(predict, batch.inputs)
        once = once.for_inputs(batch.inputs)
        counted = attribution.target_mask & self.explained_rows(attribution, batch, once)  # [B, K]
        attribution = Attribution(attribution.scores, attribution.targets, counted, attribution.token_mask)
        records = self.measure(attribution, batch, once)
        require_type(records, Tensor, f"{type(self).__name__}.measure", "return a tensor [B, K, len(columns)]")
        expected = (*attribution.targets.shape, len(self.columns))
        if records.shape != expected:
            raise ValueError(
                f"{type(self).__name__}.measure returned shape {list(records.shape)}, but [B, K, len(columns)] is "
                f"{list(expected)}: return one number for each example, class and column"
            )
        index = batch.index.unsqueeze(1).expand_as(attribution.targets)
        self.keys.append(torch.stack([index[counted], attribution.targets[counted]], dim=-1))
        self.records.append(records[counted].double())
        self.evidence_cut.append(self.cut_rows(attribution, batch)[counted])

    def explained_rows(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        """Returns [B, K] bool: True for the rows that the argument `explained` selects."""
        targets = attribution.targets
        if self.explained == "all":
            return torch.ones_like(targets, dtype=torch.bool)
        if self.explained == "gold":
            return gold_pairs(batch.labels, targets)
        probs, multilabel = predict(batch.inputs), batch.labels.dim() == 2
        predicted = predicted_classes(probs, multilabel=multilabel, decision_threshold=predict.decision_threshold)
        rows = predicted.gather(1, targets)
        return gold_pairs(batch.labels, targets) & ~rows if self.explained == "missed" else rows

    def cut_rows(self, attribution: Attribution, batch: Batch) -> Tensor:
        """Returns [B, K] bool: True for rows that lost all their evidence to truncation. By default, all are False."""
        return torch.zeros_like(attribution.target_mask)

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Synchronizes states. A rank without rows sends empty tensors; else gather would hang (torchmetrics #2463)."""
        if not self.keys:
            self.keys.append(torch.zeros(0, 2, dtype=torch.long, device=self.device))
            self.records.append(torch.zeros(0, len(self.columns), dtype=torch.float64, device=self.device))
            self.evidence_cut.append(torch.zeros(0, dtype=torch.bool, device=self.device))
        super().sync(*args, **kwargs)

    def table(self) -> tuple[Tensor, Tensor]:
        """Returns sorted distinct keys (example index, class) [n, 2] and their records [n, len(columns)] in float64."""
        keys, records, _ = self._distinct()
        return keys, records

    def _distinct(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the keys, the records and `evidence_cut` [n] of the distinct rows, in ascending order of the keys."""
        if not len(self.keys):
            records = torch.zeros(0, len(self.columns), dtype=torch.float64)
            return torch.zeros(0, 2, dtype=torch.long), records, torch.zeros(0, dtype=torch.bool)
        keys, records, cut = (dim_zero_cat(state).cpu() for state in (self.keys, self.records, self.evidence_cut))
        first, _ = distinct_rows(keys)
        return keys[first], records[first], cut[first]

    def counted_rows(self, key: str, records: Tensor) -> Tensor:
        """Returns [n] bool: True for the rows from which `aggregate` computes the value `key`.

        These are the rows without NaN in the column `key` or, if there is no such column, the rows without any NaN.
        """
        defined = ~records.isnan()
        return defined[:, self.columns.index(key)] if key in self.columns else defined.all(dim=1)

    def compute(self) -> dict[str, Tensor]:
        """Returns each value under its name in logs, and several counts of rows.

        `num_examples/<value>` counts the rows from which a value is computed, `num_skipped` the rows with an undefined
        value, `num_examples` all other rows, and `num_evidence_cut` the skipped rows with all evidence truncated.
        """
        _, records, cut = self._distinct()
        values, counts = {}, {}
        for key, value in self.aggregate(records).items():
            name = f"{self.name}/{key}" if key else self.name
            values[name] = value
            counts[f"num_examples/{name}"] = self.counted_rows(key, records).sum().float()
        undefined = records.isnan().any(dim=1)
        values["num_examples"] = (~undefined).sum().float()
        values["num_skipped"] = undefined.sum().float()
        values["num_evidence_cut"] = (undefined & cut).sum().float()
        return values | counts
