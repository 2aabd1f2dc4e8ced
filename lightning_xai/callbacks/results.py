"""Writes every number of a test to results.parquet and results.csv in the run's folder, one row each."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from lightning_xai.callbacks.base import ResultRow, ResultSource, callbacks_of
from lightning_xai.callbacks.cost import NO_COST
from lightning_xai.runs.folder import RunFacts, RunFolder
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
        run: experiment and seed are columns of every row; settings of model and data go to TensorBoard's HParams. A fit
            that ends with a test loads and checks the test splits at its start, since an error at its end is too late.

    Example:
        >>> results = ResultsFile(RunFacts("tm", seed=0))
        >>> results.begin_test("0a1b2c3d4e5f", keep_earlier=True)
    """

    def __init__(self, run: RunFacts) -> None:
        self.run = run
        self.table: pd.DataFrame | None = None  # of the last test or validation
        self.written: Path | None = None  # the CSV file of the last test
        self._checkpoint = ""
        self._keeps_earlier = False
        self._other_data = ""

    def begin_test(self, checkpoint: str, *, keep_earlier: bool = False, other_data: str = "") -> None:
        """Tells which network the next test measures, and so which file its results are written to.

        Args:
            checkpoint: hash of the network's weights, a column of every row.
            keep_earlier: keep the results of another checkpoint, and write these to `results_<checkpoint>`.
            other_data: hash of tested examples that are not the run's own; it adds to the file's name.
        """
        self._checkpoint = checkpoint
        self._keeps_earlier = keep_earlier
        self._other_data = other_data

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit" and self.run.tests_after_fit and trainer.datamodule is not None:
            trainer.datamodule.setup("test")

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == TrainerFn.VALIDATING:
            logged = {name: value for name, value in trainer.callback_metrics.items() if name.startswith("val/")}
            values = {name.removeprefix("val/"): value for name, value in logged.items()}
            self.table = self._table(trainer, classification_rows({VALIDATION: (values, 0)}))

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.table = self._table(trainer, classification_rows(pl_module.test_results))
        if trainer.is_global_zero and not trainer.fast_dev_run:
            self._write(RunFolder(Path(trainer.default_root_dir)))
            self._log_hyperparameters(trainer, pl_module)

    def _table(self, trainer: Trainer, rows: list[ResultRow]) -> pd.DataFrame:
        sources = [callback for callback in callbacks_of(trainer) if isinstance(callback, ResultSource)]
        reported = [row for source in sources for row in source.result_rows()]
        run = {"experiment": self.run.experiment, "seed": self.run.seed, "checkpoint": self._checkpoint}
        return pd.DataFrame([{**run, **row} for row in [*rows, *reported]], columns=COLUMNS)

    def _write(self, folder: RunFolder) -> None:
        file, earlier = folder.results_file, folder.results
        if self._other_data:
            file = file.with_stem(f"{file.stem}_{self._checkpoint}_{self._other_data}")
        elif self._keeps_earlier and earlier is not None and set(earlier["checkpoint"]) != {self._checkpoint}:
            file = file.with_stem(f"{file.stem}_{self._checkpoint}")
        assert self.table is not None
        self.written = file.with_suffix(".csv")
        write_whole(self.written, partial(self.table.to_csv, index=False))
        write_whole(file, partial(self.table.to_parquet, index=False))  # last: it tells that both are there

    def _log_hyperparameters(self, trainer: Trainer, module: LightningModule) -> None:
        settings = {
            name: value
            for name, value in self.run.settings.items()
            if name.startswith(("model.", "data.", "trainer.max_epochs")) and isinstance(value, str | int | float)
        }
        final = {
            f"hp/{log_prefix(row['split'])}/{row['metric']}": row["value"]
            for row in classification_rows(module.test_results)
        }
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.log_hyperparams({"seed": self.run.seed, **settings}, final)
