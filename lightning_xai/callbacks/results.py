"""Writes every number of a test to results.parquet and results.csv in the run's folder, one row each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from lightning_xai.callbacks.base import ResultRow, ResultSource, callbacks_of
from lightning_xai.callbacks.cost import NO_COST
from lightning_xai.runs.splits import VALIDATION, log_prefix
from lightning_xai.runs.store import write_whole

COLUMNS = [
    "experiment", "seed", "split", "preset", "method", "metric", "value", "num_examples", "num_skipped", "checkpoint",
    "forward_passes", "backward_passes", "seconds", "peak_memory_mb",
]  # fmt: skip


def classification_rows(results: dict[str, tuple[dict[str, Tensor], int]]) -> list[ResultRow]:
    """Returns a row for each metric of {split: (values, number of examples)}."""
    return [
        ResultRow(
            split=split, preset="", method="", metric=metric, value=float(value), num_examples=num_examples,
            num_skipped=0, **NO_COST,
        )
        for split, (values, num_examples) in results.items()
        for metric, value in values.items()
    ]  # fmt: skip


class ResultsFile(Callback):
    """Gathers the rows of the objective and of every callback that reports, when a test has ended.

    Args:
        experiment: name of the experiment, a column of every row.
        seed: likewise.
        tests_after_fit: load and check the test splits before a fit already, whose end would be too late for an error.
        settings: the run's settings by dotted name; those of model and data go to TensorBoard's HParams.
    """

    def __init__(
        self, experiment: str, seed: int, *, tests_after_fit: bool = False, settings: dict[str, Any] | None = None
    ) -> None:
        self.experiment = experiment
        self.seed = seed
        self.tests_after_fit = tests_after_fit
        self.settings = settings or {}
        self.checkpoint = ""  # hash of the tested checkpoint; the command sets it before a test
        self.keep_others = False  # then another checkpoint's results stay, and these go to results_<checkpoint>
        self.other_data = ""  # a name for examples that are not the run's own: results_<checkpoint>_<other_data>
        self.stem = "results"
        self.table: pd.DataFrame | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit" and self.tests_after_fit and trainer.datamodule is not None:
            trainer.datamodule.setup("test")

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == TrainerFn.VALIDATING:
            logged = {name: value for name, value in trainer.callback_metrics.items() if name.startswith("val/")}
            values = {name.removeprefix("val/"): value for name, value in logged.items()}
            self.table = self._table(trainer, classification_rows({VALIDATION: (values, 0)}))

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.table = self._table(trainer, classification_rows(pl_module.test_results))
        if trainer.is_global_zero and not trainer.fast_dev_run:
            self._write(Path(trainer.default_root_dir))
            self._log_hyperparameters(trainer, pl_module)

    def _table(self, trainer: Trainer, rows: list[ResultRow]) -> pd.DataFrame:
        sources = [callback for callback in callbacks_of(trainer) if isinstance(callback, ResultSource)]
        reported = [row for source in sources for row in source.result_rows()]
        run = {"experiment": self.experiment, "seed": self.seed, "checkpoint": self.checkpoint}
        return pd.DataFrame([{**run, **row} for row in [*rows, *reported]], columns=COLUMNS)

    def _write(self, folder: Path) -> None:
        before = folder / "results.parquet"
        if self.other_data:
            self.stem = f"results_{self.checkpoint}_{self.other_data}"
        elif self.keep_others and before.exists() and set(pd.read_parquet(before)["checkpoint"]) != {self.checkpoint}:
            self.stem = f"results_{self.checkpoint}"
        for suffix, write in ((".csv", self.table.to_csv), (".parquet", self.table.to_parquet)):
            # parquet last, for it tells that both are there
            write_whole(folder / f"{self.stem}{suffix}", partial(write, index=False))

    def _log_hyperparameters(self, trainer: Trainer, module: LightningModule) -> None:
        settings = {
            name: value
            for name, value in self.settings.items()
            if name.startswith(("model.", "data.", "trainer.max_epochs")) and isinstance(value, str | int | float)
        }
        final = {
            f"hp/{log_prefix(row['split'])}/{row['metric']}": row["value"]
            for row in classification_rows(module.test_results)
        }
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.log_hyperparams({"seed": self.seed, **settings}, final)
