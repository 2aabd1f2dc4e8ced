"""Compares the explanations of this run with those of other runs, for example with other seeds, on the same texts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger

from lightning_xai.callbacks.base import (
    ExplainedBatch,
    ExplainedCallback,
    data_of,
    is_dry_run,
    only_tunes,
    test_splits,
)
from lightning_xai.callbacks.preflight.preflight_run import PreflightRun
from lightning_xai.callbacks.preflight.preflight_steps import examples_with_targets, explained_examples
from lightning_xai.callbacks.result_rows import ResultRow
from lightning_xai.metrics.similarity import SIMILARITIES, require_percentage, similarities
from lightning_xai.report.names import run_names
from lightning_xai.report.stability import RunComparison, matching_runs, run_comparison, write_stability_report
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.ranks import gather
from lightning_xai.runs.splits import log_prefix
from lightning_xai.runs.stores.stored_scores import StoredScores, open_scores

PRESET = "stability"
THIS_RUN = "this run"  # name of the run that is being tested, for messages


class Stability(ExplainedCallback):
    """Compares this run's attributions with the stored attributions of other runs, for the same examples and classes.

    If the other runs have other seeds, this is the "different initializations test" (DIT): the explanations should be
    alike. If the classification head of the other run is untrained, this is the "untrained model test" (UIT): the
    explanations should differ. For every pair of runs, the scores of explainable tokens are compared.

    A test prints one matrix of similarities per method, writes `stability/<split>.csv` and `.png` into the run's
    folder, and adds the picture to TensorBoard. The results table gets this run's similarity to every other run.

    Args:
        others: folders of runs whose scores AttributionCacheWriter has stored, or patterns such as "stability/seed*". A
            pattern matches only tested runs. Folders and patterns are relative to the folder of all runs or to the
            working directory.
        percentage: Jaccard similarity compares only the highest-scoring tokens of each text. Their number is this
            percentage of the text's explainable tokens, rounded up.

    Raises:
        ValueError: `others` is empty, or `percentage` is outside (0, 100]. At setup or during a test: another run lacks
            the scores of a method or split, or has other examples, classes, text lengths or method settings.

    Reference: Zafar et al. (2021), "On the Lack of Robust Interpretability of Neural Text Classifiers", arXiv
    2106.04631 (DIT and UIT); as used by Li et al. (2023), arXiv 2312.17591, Section 4.4.
    Differs: we report Spearman's and Kendall's rank correlations in addition to Jaccard similarity.

    Example:
        >>> Stability(["stability/seed*"], percentage=0)
        Traceback (most recent call last):
        ValueError: percentage is 0: give percent above 0 and at most 100
    """

    only_evaluates: ClassVar[bool] = True

    def __init__(self, others: list[str], percentage: float = 25) -> None:
        super().__init__()
        if not others:
            raise ValueError("others is empty: add folders of runs, or patterns that match such folders")
        require_percentage(percentage)
        self.others = others
        self.percentage = percentage
        self._rows: list[ResultRow] = []
        self._tables: list[str] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        this_run = Path(trainer.default_root_dir)
        # all processes use the runs that process 0 finds, because another run may finish while they search
        self._runs = trainer.strategy.broadcast(matching_runs(self.others, this_run, RunFolder(this_run).runs_dir))
        self._names = run_names([this_run, *self._runs])
        self._splits = [split for split in test_splits(trainer) if not only_tunes(trainer, split)]
        self._scores = {
            (split, method): [self._open(run, split, method) for run in self._runs]
            for split in self._splits
            for method in self.source.methods
        }
        # (split, method) -> (example, class) -> similarities [len(SIMILARITIES), R, R] between the R runs
        self._similarities: dict[tuple[str, str], dict[tuple[int, int], np.ndarray]] = {k: {} for k in self._scores}

    def on_preflight(self, preflight: PreflightRun) -> None:
        """Checks, before this run starts, for which examples each of the other runs has stored scores.

        The examples with scores must be the examples that this run will explain. On multi-label data, some of these
        examples may lack scores, because a run may find no class to explain in an example.
        """
        if "test" in preflight.stages and not is_dry_run(preflight.trainer):
            for split, method in self._scores:
                preflight.attempt(
                    f"Stability of {method} on {split}", partial(self._compare_examples, preflight, split, method)
                )

    def _compare_examples(self, preflight: PreflightRun, split: str, method: str) -> None:
        explained = explained_examples(preflight, self.source, split)
        needed = examples_with_targets(preflight, self.source, split)
        for store in self._scores[split, method]:
            store.require_examples(needed, among=explained, reference=THIS_RUN)

    def on_explained(self, explained: ExplainedBatch) -> None:
        if not (self.trainer.testing and self._runs) or explained.split not in self._splits:
            return
        indices = explained.batch.index.tolist()
        lengths = explained.batch.inputs.attention_mask.sum(dim=1).tolist()
        for method, attribution in explained.attributions.items():
            stores = self._scores[explained.split, method]
            for row, (index, length) in enumerate(zip(indices, lengths, strict=True)):
                mask = attribution.token_mask[row, :length].cpu()
                for k in attribution.target_mask[row].nonzero().flatten().tolist():
                    key = (index, int(attribution.targets[row, k]))
                    stored = [store.row(key, length, THIS_RUN) for store in stores]
                    # torch.tensor copies the stored scores, because their memory maps are read-only
                    scores = torch.stack([attribution.scores[row, k, :length].cpu(), *map(torch.tensor, stored)])
                    similarity = similarities(scores[:, mask], self.percentage).numpy()
                    self._similarities[explained.split, method][key] = similarity

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._rows, self._tables = [], []
        is_dry = is_dry_run(trainer)
        gathered = gather(self._similarities)
        for split in self._splits if self._runs else []:
            comparisons = []
            for method in self.source.methods:
                by_key = {key: value for part in gathered for key, value in part[split, method].items()}
                for store in [] if is_dry else self._scores[split, method]:
                    store.require_rows_among(by_key, THIS_RUN)
                # sorted by (example, class), because the rounding of sums depends on the order
                ordered = [by_key[key] for key in sorted(by_key)]
                comparisons.append(run_comparison(method, ordered, len(self._names)))
            self._rows += [row for comparison in comparisons for row in self._result_rows(comparison, split)]
            if trainer.is_global_zero and not is_dry:
                self._write(comparisons, split)
        for row in self._rows:
            tag = f"{log_prefix(row['split'])}/{PRESET}/{row['method']}/{row['metric']}"
            pl_module.log(tag, row["value"], batch_size=1)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero and not self._runs:
            print(f"Stability: no tested run matches {', '.join(self.others)} yet, so nothing is compared")
        for table in self._tables:
            print(f"{table}\n")

    def result_rows(self) -> list[ResultRow]:
        return self._rows

    def _result_rows(self, comparison: RunComparison, split: str) -> list[ResultRow]:
        """Returns rows for the results table: the similarity of this run to every other run."""
        cost = self.source.costs[comparison.method].per_example(split)
        return [
            ResultRow(
                split=split, preset=PRESET, method=comparison.method, metric=f"{metric}/{name}",
                value=float(comparison.means[metric][0, position]),
                num_examples=int(comparison.counts[metric][0, position]),
                num_skipped=int(comparison.num_explanations - comparison.counts[metric][0, position]),
                num_evidence_cut=0, **cost,
            )
            for metric in SIMILARITIES
            for position, name in enumerate(self._names[1:], 1)
        ]  # fmt: skip

    def _write(self, comparisons: list[RunComparison], split: str) -> None:
        folder = RunFolder(Path(self.trainer.default_root_dir)).stability_dir
        table, picture = write_stability_report(
            comparisons, self._names, folder, split=split, percentage=self.percentage
        )
        self._tables.append(table)
        for logger in self.trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                tag = f"{PRESET}/{log_prefix(split)}"
                logger.experiment.add_image(tag, picture, self.trainer.global_step, dataformats="HWC")

    def _open(self, run: Path, split: str, method: str) -> StoredScores:
        scores = open_scores(run, split, method)
        data = data_of(self.trainer)
        settings = self.source.methods[method].settings()
        scores.require_method(settings, data.split(split).hash(), data.encoder_facts(), data.class_names)
        return scores
