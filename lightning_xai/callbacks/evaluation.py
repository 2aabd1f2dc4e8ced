"""Measures attributions with a preset: a named list of metrics with their arguments."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar

from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn

from lightning_xai.callbacks.base import (
    ExplainedBatch,
    ExplainedCallback,
    are_first_examples,
    callbacks_of,
    data_of,
    only_tunes,
    test_splits,
)
from lightning_xai.callbacks.forecast.workload import timed_part
from lightning_xai.callbacks.monitors import monitored_names
from lightning_xai.callbacks.preflight.preflight_metrics import refuse_tuning, try_metrics
from lightning_xai.callbacks.preflight.preflight_run import PreflightRun
from lightning_xai.callbacks.result_rows import ResultRow, left_out_row
from lightning_xai.functional.erasure.segment_counts import SegmentCounts, SegmentsOfVersions, segments_counted
from lightning_xai.functional.sizes import require_max_examples
from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.metrics.reads_symbols import ReadsSymbols
from lightning_xai.runs.names import check_name
from lightning_xai.runs.ranks import gather
from lightning_xai.runs.splits import VALIDATION, log_prefix


class AttributionEvaluation(ExplainedCallback):
    """Measures the attributions of the preceding ComputeAttributions, and logs the values.

    The log tags are `<split>/<preset>/<method>/<metric>`. In them, the validation split is called `val`. If a test
    evaluates the validation split, this split comes first and is only used to tune thresholds, unless the data's
    `extra_test_splits` names it. Under DDP, values are the same as with one process, because AttributionMetric gathers
    the records of all processes. In `predict`, nothing is measured, because there may be no labels. A metric that
    cannot be tuned on the validation split is left out; its row in the results table has the reason instead of a value.

    Args:
        preset: name of this list of metrics; a part of every log tag.
        metrics: metrics to compute. For each pair of a split and a method, the metrics are copied.
        max_examples: an explained example is measured only if it is among the first `max_examples` examples of its
            split. None: no limit.
        during_fit: whether to also measure during the validations of a fit.

    Raises:
        ValueError: `metrics` is empty or has two metrics with the same name. At setup: the names of preset, method and
            metric are the same as in an earlier AttributionEvaluation, or a metric needs tuning but the test does not
            evaluate the validation split.

    Example:
        >>> from lightning_xai.metrics.complexity import Entropy
        >>> AttributionEvaluation("sparsity", [Entropy(), Entropy(name="entropy")])
        Traceback (most recent call last):
        ValueError: preset 'sparsity' has several metrics named ['entropy']: give each a different `name`
    """

    only_evaluates: ClassVar[bool] = True

    def __init__(
        self,
        preset: str,
        metrics: list[AttributionMetric],
        *,
        max_examples: int | None = None,
        during_fit: bool = False,
    ) -> None:
        super().__init__(during_fit=during_fit)
        check_name("preset", preset)
        if not metrics:
            raise ValueError(f"preset {preset!r} has no metrics: add at least one metric")
        names = [metric.name for metric in metrics]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"preset {preset!r} has several metrics named {repeated}: give each a different `name`")
        self.preset = preset
        self.metrics = metrics
        require_max_examples(max_examples)
        self.max_examples = max_examples
        self.left_out: set[tuple[str, str]] = set()  # pairs (method, metric) that failed in the preflight
        self._copies: dict[tuple[str, str], list[AttributionMetric]] = {}  # (split, method) -> copies of the metrics
        self._segments: dict[tuple[str, str, str], SegmentCounts] = {}  # (split, method, metric) -> counted segments
        self._rows: list[ResultRow] = []

    @property
    def label(self) -> str:
        return f"AttributionEvaluation({self.preset!r})"

    @property
    def needs_validation_in_test(self) -> bool:
        """Whether a metric tunes a threshold on the validation split. If so, a test explains this split first."""
        return any(metric.needs_tuning for metric in self.metrics)

    @property
    def state_key(self) -> str:
        return self._generate_state_key(preset=self.preset)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        callbacks = callbacks_of(trainer)
        for earlier in callbacks[: callbacks.index(self)]:
            if isinstance(earlier, AttributionEvaluation) and (shared := earlier._numbers() & self._numbers()):
                preset, method, metric = min(shared)
                raise ValueError(
                    f"two evaluations measure {metric} of {method} under the preset name {preset!r}: set another "
                    "`preset` for one evaluation"
                )
        self._copies, self._segments = {}, {}
        encoder = getattr(data_of(trainer), "encoder", None)  # data modules of other packages may lack an encoder
        for reader in self.metrics:
            if isinstance(reader, ReadsSymbols) and reader.needs_symbols and encoder is not None:
                reader.take_symbols(encoder.symbol_mask)
        if stage == "test" and VALIDATION not in test_splits(trainer):
            self.refuse_tuned_metrics(callbacks)

    def refuse_tuned_metrics(self, callbacks: Sequence[Callback]) -> None:
        """Raises ValueError if a metric tunes a threshold. Called if a test does not evaluate the validation split.

        Raises nothing if the `callbacks` contain a preflight that will leave out these metrics.
        """
        # only Preflight has `leaves_out`: True if it leaves out methods and metrics that fail
        if any(getattr(callback, "leaves_out", False) for callback in callbacks):
            return
        for metric in self.metrics:
            refuse_tuning(self.preset, metric)

    def on_preflight(self, preflight: PreflightRun) -> None:
        try_metrics(preflight, self)

    def on_explained(self, explained: ExplainedBatch) -> None:
        if not self.active or self.trainer.predicting:
            return
        rows = are_first_examples(self.trainer, explained.batch, explained.split, self.max_examples)
        if not rows.any():
            return
        if not rows.all():
            explained = explained[rows]
        tunes = self.trainer.testing and only_tunes(self.trainer, explained.split)
        for method, attribution in explained.attributions.items():
            for metric in self._metrics_of(explained.split, method):
                if metric.needs_tuning or not tunes:
                    text = f"{self.preset}/{metric.name} measures {method} on"
                    name, share = f"{self.preset}/{metric.name}", 1 / len(explained.attributions)
                    with timed_part(self.source, name, text, share), segments_counted() as segments:
                        metric.update(attribution, explained.batch, explained.predict)
                    counts = self._segments.setdefault((explained.split, method, metric.name), SegmentCounts())
                    counts.merge(segments)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.active and not trainer.sanity_checking:
            self._finish([VALIDATION])

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._finish(test_splits(trainer))

    def result_rows(self) -> list[ResultRow]:
        return self._rows

    def _numbers(self) -> set[tuple[str, str, str]]:
        """Returns the names (preset, method, metric) of all values that this callback measures."""
        return {(self.preset, method, metric.name) for method in self.source.methods for metric in self.metrics}

    def _metrics_of(self, split: str, method: str) -> list[AttributionMetric]:
        """Returns the copies of the metrics that measure a method on a split. The first call creates them."""
        key = (split, method)
        if key not in self._copies:
            self._copies[key] = [
                copy.deepcopy(metric).to(self.module.device)
                for metric in self.metrics
                if (method, metric.name) not in self.left_out
            ]
        return self._copies[key]

    def _finish(self, splits: list[str]) -> None:
        """Computes and logs the metrics of the evaluated splits.

        A metric's `compute` gathers records from all processes, so every process must visit the splits and methods in
        the same order.
        """
        self._rows = []
        counted: defaultdict[tuple[str, str, str], SegmentCounts] = defaultdict(SegmentCounts)
        for counts in gather(self._segments):
            for key, of_process in counts.items():
                counted[key].merge(of_process)
        for split in splits:
            if self.trainer.testing and only_tunes(self.trainer, split):
                continue
            for method in self.source.methods:
                tuned_on = self._metrics_of(VALIDATION, method) if VALIDATION in splits else []
                for position, metric in enumerate(self._metrics_of(split, method)):
                    if metric.needs_tuning:
                        if VALIDATION not in splits:  # Preflight was skipped, so it did not leave this metric out
                            refuse_tuning(self.preset, metric)
                        try:
                            metric.tune_from(tuned_on[position])
                        except ValueError as error:  # one failure must not discard the other metrics' values
                            self._leave_out(split, method, metric, error)
                            continue
                    segments = counted[split, method, metric.name].sum()
                    self._rows += self._result_rows(metric, split, method, segments)
        for row in self._rows:
            if row.get("left_out"):
                continue
            tag = f"{log_prefix(row['split'])}/{self.preset}/{row['method']}/{row['metric']}"
            # the value is the same in all processes, so ModelCheckpoint may use it
            self.module.log(tag, row["value"], batch_size=1)
        self._copies, self._segments = {}, {}

    def _leave_out(self, split: str, method: str, metric: AttributionMetric, error: ValueError) -> None:
        """Adds a row with the reason why a metric of a method has no value.

        During a fit, the metric may have had values in earlier validations, which Lightning still holds. If a callback
        monitors one of them, the error is raised, so that the callback does not choose by an outdated value. Otherwise,
        NaN replaces the old values.
        """
        self._rows.append(left_out_row(split, self.preset, method, metric.name, str(error)))
        prefix = f"{log_prefix(split)}/{self.preset}/{method}/{metric.name}"
        monitored = monitored_names(callbacks_of(self.trainer))
        if self.trainer.state.fn == TrainerFn.FITTING and any(_is_of(name, prefix) for name in monitored):
            raise error
        for tag in list(self.trainer.callback_metrics):
            if _is_of(tag, prefix):
                self.module.log(tag, float("nan"), batch_size=1)

    def _result_rows(
        self, metric: AttributionMetric, split: str, method: str, segments: SegmentsOfVersions
    ) -> list[ResultRow]:
        values = {name: float(value) for name, value in metric.compute().items()}
        num_rows = int(values.pop("num_examples") + values.pop("num_skipped"))
        num_cut = int(values.pop("num_evidence_cut"))
        cost = self.source.costs[method].per_example(split)
        measured = {name: value for name, value in values.items() if f"num_examples/{name}" in values}
        counted = {name: int(values[f"num_examples/{name}"]) for name in measured}
        rows = [
            ResultRow(
                split=split, preset=self.preset, method=method, metric=name, value=value,
                num_examples=counted[name], num_skipped=num_rows - counted[name], num_evidence_cut=num_cut,
                selected_on=self.source.methods[method].selected_on,
                pass_group=self.source.costs[method].group(split), **cost,
            )
            for name, value in measured.items()
        ]  # fmt: skip
        if segments.num_versions:
            for row in rows:
                row["metric_version_segments"], row["metric_encoded_segments"] = segments.per_version
        return rows


def _is_of(tag: str, prefix: str) -> bool:
    """Returns whether a log tag is `prefix`, the tag of a metric, or `prefix`/<name of one of the metric's values>."""
    return tag == prefix or tag.startswith(f"{prefix}/")
