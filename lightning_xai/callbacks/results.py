"""Writes the results of a test to results.csv and results.parquet in the run's folder, with one value per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pandas as pd
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from lightning_xai.callbacks.base import callbacks_of, data_of, is_dry_run
from lightning_xai.callbacks.cost import NO_COST
from lightning_xai.callbacks.result_rows import ResultRow, ResultSource
from lightning_xai.metrics.classification import ClassificationMetrics
from lightning_xai.runs.facts import FactsOfTest, RunFacts
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.locks.ownership import own_results, release_results
from lightning_xai.runs.progress import say
from lightning_xai.runs.ranks import first_does
from lightning_xai.runs.splits import VALIDATION, log_prefix

COLUMNS = [
    "experiment", "seed", "split", "preset", "method", "metric", "value", "num_examples", "num_skipped",
    "num_evidence_cut", "checkpoint", "forward_passes", "backward_passes", "seconds", "peak_memory_mb", "left_out",
    "selected_on", "pass_group", "version_segments", "encoded_segments", "metric_version_segments",
    "metric_encoded_segments",
]  # fmt: skip


TestResults = dict[str, tuple[dict[str, Tensor], int]]  # split -> (metric -> value, number of examples)


def classification_rows(results: TestResults) -> list[ResultRow]:
    """Returns one row of the results table for each classification metric of each split.

    Example:
        >>> (row,) = classification_rows({"test": ({"accuracy": Tensor([0.75])}, 8)})
        >>> row["split"], row["metric"], row["value"], row["num_examples"]
        ('test', 'accuracy', 0.75, 8)
    """
    return [
        ResultRow(
            split=split, preset="", method="", metric=metric, value=float(value), num_examples=num_examples,
            num_skipped=0, num_evidence_cut=0, **NO_COST,
        )
        for split, (values, num_examples) in results.items()
        for metric, value in values.items()
    ]  # fmt: skip


def constant_prediction_lines(
    metrics: Mapping[str, ClassificationMetrics], class_names: Sequence[str] | None = None
) -> list[str]:
    """Returns a line for each split where all texts get the same predicted classes, although their gold classes differ.

    Args:
        metrics: split -> its metrics, after `compute`. The validation split is skipped.
        class_names: names of the classes. If None, the line gives their numbers.

    Example:
        >>> import torch
        >>> metric = ClassificationMetrics(num_classes=2)
        >>> metric.update(torch.tensor([[0.6, 0.4]] * 8), torch.tensor([0, 1] * 4), index=torch.arange(8))
        >>> _ = metric.compute()
        >>> constant_prediction_lines({"test": metric}, ["bad", "good"])
        ["test: every prediction is 'bad', so explanations say little"]
    """
    lines = []
    for split, metric in metrics.items():
        if split != VALIDATION and metric.constant is not None:
            chosen = [number if class_names is None else class_names[number] for number in metric.constant]
            fact = f"every prediction is {', '.join(map(repr, chosen))}" if chosen else "no class is ever predicted"
            lines.append(f"{split}: {fact}, so explanations say little")
    return lines


class ResultsFile(Callback):
    """At the end of a test, writes the results of the objective and of every callback that is a ResultSource.

    A test writes the result files only if `begin` was called before. At the end of `validate`, the callback sets
    `table` but writes no files. Each test also logs the settings of model and data, and the classification metrics, to
    TensorBoard's HParams.

    Args:
        run: facts about the run. Its experiment and seed become columns of the table. If `run.tests_after_fit` is
            True, the test splits are loaded and checked before the fit starts.

    Example:
        >>> from pathlib import Path
        >>> from lightning_xai.runs.results_table import ResultsTable
        >>> results = ResultsFile(RunFacts("tm", seed=0))
        >>> results.begin(FactsOfTest("0a1b2c3d4e5f", ResultsTable(Path("runs/tm/seed0"))))
        >>> results.table is None  # until the test has ended
        True
    """

    def __init__(self, run: RunFacts) -> None:
        self.run = run
        self.test: FactsOfTest | None = None  # facts about the last or current test, validation or prediction
        self.table: pd.DataFrame | None = None  # results of the last test or validation

    def begin(self, test: FactsOfTest) -> None:
        """Sets the checkpoint and the result files of the next test, validation or prediction."""
        self.test = test

    @property
    def file_suffix(self) -> str:
        """The suffix of the files that the command writes; see NamesFiles."""
        return self.test.table.suffix if self.test is not None else ""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit" and self.run.tests_after_fit and data_of(trainer) is not None:
            data_of(trainer).setup("test")
        if trainer.state.fn == TrainerFn.TESTING and self.test is not None and not is_dry_run(trainer):
            table = self.test.table
            first_does(lambda: own_results(RunFolder(table.folder), table.parquet))

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._release()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._release()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == TrainerFn.VALIDATING:
            prefix = f"{log_prefix(VALIDATION)}/"
            logged = {name: value for name, value in trainer.callback_metrics.items() if name.startswith(prefix)}
            values = {name.removeprefix(prefix): value for name, value in logged.items()}
            self.table = self._table(trainer, classification_rows({VALIDATION: (values, 0)}))

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero and self.test is not None and not is_dry_run(trainer):
            self.test.table.keep_pages(self.run.settings)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        rows = classification_rows(cast(TestResults, pl_module.test_results))
        self.table = self._table(trainer, rows)
        if trainer.is_global_zero and not is_dry_run(trainer):
            metrics: dict[str, ClassificationMetrics] = cast(Any, pl_module).test_metrics
            for line in constant_prediction_lines(metrics, getattr(data_of(trainer), "class_names", None)):
                say(line)
            facts = getattr(pl_module, "result_facts", {})
            if self.test and (kept := self.test.table.write(self.table, self.run.settings, facts)) is not None:
                say(f"the results with the earlier evaluation settings are now in {kept.csv}")
            self._log_hyperparameters(trainer, rows)

    def _release(self) -> None:
        if self.test is not None:
            release_results(self.test.table.parquet)

    def _table(self, trainer: Trainer, rows: list[ResultRow]) -> pd.DataFrame:
        sources = [callback for callback in callbacks_of(trainer) if isinstance(callback, ResultSource)]
        reported = [row for source in sources for row in source.result_rows()]
        checkpoint = self.test.checkpoint if self.test is not None else ""
        run = {"experiment": self.run.experiment, "seed": self.run.seed, "checkpoint": checkpoint}
        run |= {"left_out": "", "selected_on": "", "pass_group": ""}
        return pd.DataFrame([{**run, **row} for row in [*rows, *reported]], columns=COLUMNS)

    def _log_hyperparameters(self, trainer: Trainer, rows: list[ResultRow]) -> None:
        settings = {
            name: value
            for name, value in self.run.settings.items()
            if name.startswith(("model.", "data.", "trainer.max_epochs")) and isinstance(value, str | int | float)
        }
        final = {f"hp/{log_prefix(row['split'])}/{row['metric']}": row["value"] for row in rows}
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.log_hyperparams({"seed": self.run.seed, **settings}, final)
