"""Measures attributions with a preset: a named bundle of metric definitions."""

from __future__ import annotations

import copy
from typing import Any

from lightning import LightningModule, Trainer

from lightning_xai.callbacks.base import ExplainingCallback, NamesExperiment, ResultRow, among_first, explained_by
from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.types import Batch

TUNING_SPLIT = "validation"


class AttributionEvaluation(ExplainingCallback):
    """Logs `<split>/<preset>/<method>/<metric>` for every method of the last ComputeAttributions before it.

    In `test`, the validation split comes first and serves only to tune thresholds of metrics that need it. Numbers are
    exact under DDP (see AttributionMetric). In `predict`, where there may be no labels, nothing is measured.

    Args:
        preset: name of this bundle of definitions; part of every number's name.
        metrics: prototypes; each method and split gets copies of its own.
        max_examples: measure only the first rows of each split, at most those that ComputeAttributions explains.
        during_fit: see ExplainingCallback.
    """

    def __init__(
        self,
        preset: str,
        metrics: list[AttributionMetric],
        *,
        max_examples: int | None = None,
        during_fit: bool = False,
    ) -> None:
        super().__init__(during_fit=during_fit)
        if not metrics:
            raise ValueError(f"preset {preset!r} has no metrics: list at least one")
        names = [metric.name for metric in metrics]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"preset {preset!r} names {repeated} twice: give one of them another `name`")
        self.preset = preset
        self.metrics = metrics
        self.max_examples = max_examples
        self._running: dict[tuple[str, str], list[AttributionMetric]] = {}  # (split, method) -> copies
        self._rows: list[ResultRow] = []

    @property
    def _numbers(self) -> set[tuple[str, str, str]]:
        return {(self.preset, method, metric.name) for method in self._compute.methods for metric in self.metrics}

    @property
    def state_key(self) -> str:
        return self._generate_state_key(preset=self.preset)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._compute = explained_by(trainer, self, f"AttributionEvaluation({self.preset!r})")
        for other in trainer.callbacks[: trainer.callbacks.index(self)]:
            if isinstance(other, AttributionEvaluation) and other._numbers & self._numbers:
                preset, method, metric = min(other._numbers & self._numbers)
                raise ValueError(
                    f"two evaluations measure {metric} of {method} as preset {preset!r}: give one another `preset`"
                )
        self._running = {}
        tuned = [metric.name for metric in self.metrics if metric.needs_tuning]
        tests = stage == "fit" and any(c.tests_after_fit for c in trainer.callbacks if isinstance(c, NamesExperiment))
        if tuned and (tests or stage == "test") and TUNING_SPLIT not in _test_splits(trainer):
            raise ValueError(
                f"{self.preset}/{tuned[0]} tunes its threshold on the validation split, which this run does not "
                "evaluate: set data.init_args.tune_on_validation to true"
            )

    def on_explained_batch(
        self, trainer: Trainer, module: LightningModule, outputs: dict[str, Any], batch: Batch, split: str
    ) -> None:
        explained, predict = outputs["explained"], outputs["predict"]
        rows = among_first(trainer, explained, split, self.max_examples)
        if not rows.all():
            explained = explained[rows]
            predict = predict.for_inputs(explained.inputs)
        tuning = trainer.testing and split == TUNING_SPLIT
        for name in self._compute.methods:
            metrics = self._copies(module, split, name)
            if not len(explained):
                continue
            attribution = outputs["attributions"][name][rows]
            for metric in metrics:
                if metric.needs_tuning or not tuning:
                    metric.update(attribution, explained, predict)

    def on_predict_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        pass

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.active(trainer) and not trainer.sanity_checking:
            self._finish(trainer, pl_module, prefix="val" if trainer.state.fn == "fit" else None)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._finish(trainer, pl_module)

    def result_rows(self) -> list[ResultRow]:
        return self._rows

    def _copies(self, module: LightningModule, split: str, method: str) -> list[AttributionMetric]:
        key = (split, method)
        if key not in self._running:
            self._running[key] = [copy.deepcopy(metric).to(module.device) for metric in self.metrics]
        return self._running[key]

    def _finish(self, trainer: Trainer, module: LightningModule, prefix: str | None = None) -> None:
        self._rows = []
        # every rank walks through the same pairs in the same order, for computing gathers rows from all of them
        splits = [s for s in _splits(trainer) if not (trainer.testing and s == TUNING_SPLIT)]
        for split in splits:
            for method in self._compute.methods:
                cost = self._compute.costs[method].per_example()
                tuned_on = self._copies(module, TUNING_SPLIT, method) if TUNING_SPLIT in _splits(trainer) else None
                for position, metric in enumerate(self._copies(module, split, method)):
                    if metric.needs_tuning:
                        metric.tune_from(tuned_on[position])
                    values = metric.compute()
                    num_examples, num_skipped = int(values.pop("num_examples")), int(values.pop("num_skipped"))
                    for name, value in values.items():
                        self._rows.append(
                            ResultRow(
                                split=split, preset=self.preset, method=method, metric=name, value=float(value),
                                num_examples=num_examples, num_skipped=num_skipped, **cost,
                            )
                        )  # fmt: skip
        for row in self._rows:
            tag = f"{prefix or row['split']}/{self.preset}/{row['method']}/{row['metric']}"
            module.log(tag, row["value"], batch_size=1)  # the same on every rank, so it may be monitored
        self._running = {}


def _splits(trainer: Trainer) -> list[str]:
    return _test_splits(trainer) if trainer.testing else [TUNING_SPLIT]


def _test_splits(trainer: Trainer) -> list[str]:
    return getattr(trainer.datamodule, "test_splits", None) or ["test"]
