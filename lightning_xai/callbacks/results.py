"""Writes every number of a test to results.parquet and results.csv in the run's folder, one row each."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
from lightning import Callback, LightningModule, Trainer

from lightning_xai.callbacks.base import Reports, ResultRow

COLUMNS = [
    "experiment", "seed", "split", "preset", "method", "metric", "value", "num_examples", "num_skipped", "checkpoint",
    "forward_passes", "backward_passes", "seconds", "peak_memory_mb",
]  # fmt: skip
NO_COST = {"forward_passes": math.nan, "backward_passes": math.nan, "seconds": math.nan, "peak_memory_mb": math.nan}


class ResultsFile(Callback):
    """Gathers the rows of the objective and of every callback that reports, when a test has ended.

    Args:
        experiment: name of the experiment, a column of every row.
        seed: likewise.
    """

    def __init__(self, experiment: str, seed: int) -> None:
        self.experiment = experiment
        self.seed = seed
        self.checkpoint = ""  # hash of the tested checkpoint; the command sets it before a test
        self.table: pd.DataFrame | None = None

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        rows: list[dict[str, Any]] = list(self._classification_rows(pl_module))
        for callback in trainer.callbacks:
            if isinstance(callback, Reports):
                rows.extend(callback.result_rows())
        run = {"experiment": self.experiment, "seed": self.seed, "checkpoint": self.checkpoint}
        self.table = pd.DataFrame([{**run, **row} for row in rows], columns=COLUMNS)
        if trainer.is_global_zero and not trainer.fast_dev_run:
            folder = Path(trainer.default_root_dir)
            self.table.to_parquet(folder / "results.parquet", index=False)
            self.table.to_csv(folder / "results.csv", index=False)

    def _classification_rows(self, module: LightningModule) -> list[ResultRow]:
        return [
            ResultRow(
                split=split, preset="", method="", metric=metric, value=float(value), num_examples=num_examples,
                num_skipped=0, **NO_COST,
            )
            for split, (values, num_examples) in module.test_results.items()
            for metric, value in values.items()
        ]  # fmt: skip
