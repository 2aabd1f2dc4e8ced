"""Do networks that differ in nothing but their initial weights explain the same texts in the same way?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.callbacks.attribution_cache import (
    check_settings,
    method_settings,
    open_scores,
    refuse_other_rows,
    stored_row,
)
from lightning_xai.callbacks.base import ExplainingCallback, NamesExperiment, ResultRow, explained_by
from lightning_xai.metrics.similarity import MEASURES, check_percentage, similarities
from lightning_xai.report.stability import Comparison, compare, matching_runs, run_names, write_report
from lightning_xai.runs.store import RaggedStore
from lightning_xai.types import Batch

PRESET = "stability"
TUNING_SPLIT = "validation"
THIS = "this run"


class Stability(ExplainingCallback):
    """Compares this run's attributions with those that other runs stored for the same examples and classes.

    Other seeds give the different initializations test, a network with an untrained head the untrained model test: the
    former should be alike, the latter not. All pairs of runs are compared, over the tokens that may be explained.

    A test prints one matrix a method and writes `stability/<split>.csv` and `.png` into the run's folder, the picture
    also to TensorBoard. Results have this run's similarity to every other one.

    Args:
        others: folders of runs with scores by AttributionCacheWriter, or patterns such as "stability/seed*", by which
            all are found that are tested already; in the folder of all runs, or else from where the command is given.
        percentage: percent of the tokens, rounded up, whose overlap is measured.

    Raises:
        ValueError: percentage outside (0, 100]; a run without scores of a method or split, or with other settings of
            the method; examples, classes or lengths that differ (they are named).

    Reference: Zafar et al. (2021), "On the Lack of Robust Interpretability of Neural Text Classifiers", arXiv
    2106.04631 (DIT and UIT); as used by Li et al. (2023), arXiv 2312.17591, Section 4.4.
    Differs: rank correlations beside the overlap are ours.
    """

    def __init__(self, others: list[str], percentage: float = 25) -> None:
        super().__init__()
        if not others:
            raise ValueError("others is empty: name folders of runs, or a pattern that finds them")
        check_percentage(percentage)
        self.others = others
        self.percentage = percentage
        self._rows: list[ResultRow] = []
        self._reports: list[str] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._compute = explained_by(trainer, self, "Stability")
        own = Path(trainer.default_root_dir)
        # of one process, since a run may come to its end while the others look
        self._runs = trainer.strategy.broadcast(matching_runs(self.others, own, _runs_dir(trainer)))
        self._names = run_names([own, *self._runs])
        self._stores = {
            (split, name): [_open(trainer, run, split, name, method) for run in self._runs]
            for split in _splits(trainer)
            for name, method in self._compute.methods.items()
        }
        self._similarities: dict[tuple[str, str], dict[tuple[int, int], np.ndarray]] = {k: {} for k in self._stores}

    def active(self, trainer: Trainer) -> bool:
        return False  # in validation; `test` does not ask

    def on_explained_batch(
        self, trainer: Trainer, module: LightningModule, outputs: dict[str, Any], batch: Batch, split: str
    ) -> None:
        if not self._runs or split == TUNING_SPLIT:
            return
        explained = outputs["explained"]
        for name, attribution in outputs["attributions"].items():
            found = self._similarities[split, name]
            lengths = explained.inputs.attention_mask.sum(dim=1).tolist()
            for row, (index, length) in enumerate(zip(explained.index.tolist(), lengths, strict=True)):
                mask = attribution.token_mask[row, :length].cpu()
                for k in attribution.target_mask[row].nonzero().flatten().tolist():
                    key = (index, int(attribution.targets[row, k]))
                    own = attribution.scores[row, k, :length].cpu()
                    stored = [stored_row(store, key, length, THIS) for store in self._stores[split, name]]
                    scores = torch.stack([own, *map(torch.tensor, stored)])  # copies: memory maps are read-only
                    found[key] = similarities(scores[:, mask], self.percentage).numpy()

    def on_predict_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        pass

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._rows, self._reports = [], []
        gathered = _gather(self._similarities)
        for split in _splits(trainer) if self._runs else []:
            comparisons = []
            for name in self._compute.methods:
                found = gathered[split, name]
                for store in [] if trainer.fast_dev_run else self._stores[split, name]:
                    refuse_other_rows(store, found, THIS)
                ordered = [found[key] for key in sorted(found)]  # so that sums do not depend on processes
                comparisons.append(compare(name, ordered, len(self._names)))
            self._rows += [row for comparison in comparisons for row in self._result_rows(comparison, split)]
            if trainer.is_global_zero and not trainer.fast_dev_run:
                self._write(trainer, comparisons, split)
        for row in self._rows:
            tag = f"{row['split']}/{PRESET}/{row['method']}/{row['metric']}"
            pl_module.log(tag, row["value"], batch_size=1)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero and not self._runs:
            print(f"Stability: no tested run matches {', '.join(self.others)} yet, so nothing is compared")
        for report in self._reports:
            print(f"{report}\n")

    def result_rows(self) -> list[ResultRow]:
        return self._rows

    def _result_rows(self, comparison: Comparison, split: str) -> list[ResultRow]:
        cost = self._compute.costs[comparison.method].per_example()
        return [
            ResultRow(
                split=split, preset=PRESET, method=comparison.method, metric=f"{measure}/{name}",
                value=float(comparison.means[measure][0, place]),
                num_examples=int(comparison.counts[measure][0, place]),
                num_skipped=int(comparison.num_explanations - comparison.counts[measure][0, place]), **cost,
            )
            for measure in MEASURES
            for place, name in enumerate(self._names[1:], 1)
        ]  # fmt: skip

    def _write(self, trainer: Trainer, comparisons: list[Comparison], split: str) -> None:
        folder = Path(trainer.default_root_dir) / PRESET
        report, picture = write_report(comparisons, self._names, folder, split=split, percentage=self.percentage)
        self._reports.append(report)
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_image(f"{PRESET}/{split}", picture, trainer.global_step, dataformats="HWC")


def _runs_dir(trainer: Trainer) -> Path:
    """Returns the folder of all runs; the working directory outside of a command."""
    named = [callback.experiment for callback in trainer.callbacks if isinstance(callback, NamesExperiment)]
    parents, depth = Path(trainer.default_root_dir).absolute().parents, len(Path(named[0]).parts) if named else 0
    return parents[depth] if 0 < depth < len(parents) else Path()  # a moved run can lie less deep


def _splits(trainer: Trainer) -> list[str]:
    return [split for split in trainer.datamodule.test_splits if split != TUNING_SPLIT]


def _open(trainer: Trainer, run: Path, split: str, name: str, method: AttributionMethod) -> RaggedStore:
    store = open_scores(run, split, name)
    check_settings(store, method_settings(method), trainer.datamodule.split(split).hash())
    return store


def _gather(found: dict) -> dict:
    """Returns the explanations of all processes; every process takes part."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return found
    everyone: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(everyone, found)
    return {key: {k: v for part in everyone for k, v in part[key].items()} for key in found}
