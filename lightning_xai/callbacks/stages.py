"""Chains of runs: which stage comes next, how long the rest takes, and the erasures that one stage leaves to others."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from lightning import LightningModule, Trainer
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod, ReadsSplit
from lightning_xai.callbacks.base import NamesExperiment
from lightning_xai.store import RaggedStore, RaggedWriter
from lightning_xai.types import Batch

KEY = 0  # as data.erasures reads them
Rule = Callable[[Batch, str], dict[str, Tensor]]  # (batch, split) -> erased tokens [B, T] bool by the stage's name


@dataclass(frozen=True)
class Stage:
    """One run of a chain.

    Attributes:
        name: its folder under the chain's, "gradient/030"; "" for the root, the first run.
        title: what a person reads.
        group: stages that take about as long as one another.
        erasures: name of the erasures that it trains on, written by the root or by a stage before it; "" for none.
        overrides: further command-line arguments.
    """

    name: str
    title: str
    group: str
    erasures: str = ""
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chain:
    """Stages in their order and the folder of the first one's run.

    The run of stage "gradient/030" of the root runs/roar/seed0 is runs/roar/gradient/030/seed0. Erasures lie in the
    root's folder, so that a stage finds them without knowing which one wrote them.
    """

    root: Path
    stages: Sequence[Stage]

    @classmethod
    def of_run(cls, run: Path, stages: Sequence[Stage]) -> tuple[Chain, Stage]:
        """Returns the chain to which a run's folder belongs, and the stage that it is."""
        for stage in stages[1:]:
            parts = Path(stage.name).parts
            if run.parts[-len(parts) - 1 : -1] == parts:
                root = run.parents[len(parts)] / run.name
                if manifest(root):  # else the root's own experiment has the name of a stage
                    return cls(root, stages), stage
        return cls(run, stages), stages[0]

    def run(self, stage: Stage) -> Path:
        return self.root.parent / stage.name / self.root.name

    def erasures(self, name: str) -> Path:
        return self.root / "erasures" / name

    def unfinished(self) -> list[Stage]:
        return [stage for stage in self.stages if manifest(self.run(stage)).get("status") != "finished"]

    def overrides(self, stage: Stage, trainer: Trainer) -> list[str]:
        """Returns the command-line arguments that make the command of any other stage that of this one.

        Raises:
            ValueError: the stage's erasures are missing, though all stages before it are finished.
        """
        experiment = self._experiment(trainer)
        runs_dir = self.root.parents[len(Path(experiment).parts)]
        found = [f"--experiment={experiment}/{stage.name}", f"--runs_dir={runs_dir}", *stage.overrides]
        if stage.erasures:
            folder = self.erasures(stage.erasures)
            if not (folder / "complete.json").exists():
                raise ValueError(
                    f"{folder} is missing, though the stages before {stage.name} are finished: remove the run before "
                    "it and start the chain again"
                )
            found.append(f"--data.init_args.erasures={folder}")
        return found

    def _experiment(self, trainer: Trainer) -> str:
        """Returns the root's experiment."""
        named = next(callback.experiment for callback in trainer.callbacks if isinstance(callback, NamesExperiment))
        _, current = self.of_run(Path(trainer.default_root_dir), self.stages)
        return named.removesuffix(f"/{current.name}") if current.name else named

    def minutes_left(self) -> float | None:
        """Returns an estimate from the finished stages, those of a group for their like; None before the first."""
        seconds: dict[str, list[float]] = {}
        for stage in self.stages:
            facts = manifest(self.run(stage))
            if facts.get("status") == "finished" and "seconds" in facts:
                seconds.setdefault(stage.group, []).append(facts["seconds"])
        known = [value for values in seconds.values() for value in values]
        if not known:
            return None
        return sum(median(seconds.get(stage.group, known)) for stage in self.unfinished()) / 60

    def progress(self, stage: Stage, name: str) -> str:
        """Returns "ROAR stage 7 of 38: gradient, 30 %, about 12 min left"."""
        left = self.minutes_left()
        known = "" if left is None else f", about {left:.0f} min left" if left >= 1 else ", under 1 min left"
        return f"{name} stage {self.stages.index(stage) + 1} of {len(self.stages)}: {stage.title}{known}"


def manifest(run: Path) -> dict[str, Any]:
    """Returns what a run's folder says of it, {} before it began."""
    file = run / "manifest.json"
    return json.loads(file.read_text()) if file.exists() else {}


def splits_of(trainer: Trainer) -> list[str]:
    """Returns every split that a stage of the chain trains, validates or tests on, each once."""
    return list(dict.fromkeys(["train", "validation", *trainer.datamodule.test_splits]))


def erased_rows(trainer: Trainer, split: str, index: Sequence[int], width: int) -> Tensor:
    """Returns [B, width] bool: what the data module has erased of the examples already."""
    erased = torch.zeros(len(index), width, dtype=torch.bool)
    if trainer.datamodule.erasures is not None:
        store = RaggedStore(Path(trainer.datamodule.erasures) / split)
        for row, i in enumerate(index):
            values = torch.from_numpy(np.array(store.get(i, KEY)))
            erased[row, : len(values)] = values > 0.5
    return erased


def write_erasures(trainer: Trainer, folders: dict[str, Path], rule: Rule, facts: dict[str, dict[str, Any]]) -> None:
    """Stores what `rule` erases of every example of every split, each process its share of the batches.

    A pass that was killed goes on where it stopped. `complete.json` in a folder tells that all of it is there.

    Args:
        folders: where the erasures of each name go; a store for each split.
        rule: called with a batch on the module's device and its split.
        facts: JSON-able metadata of each name.

    Raises:
        ValueError: a folder holds erasures of other facts.
    """
    for name, folder in folders.items():
        check_complete(folder, facts[name])
    names = [name for name, folder in folders.items() if not (folder / "complete.json").exists()]
    trainer.strategy.barrier()  # none may write before all have seen what is there
    if not names:
        return
    for split in splits_of(trainer):
        _write_split(trainer, split, {name: folders[name] / split for name in names}, rule, facts)
    trainer.strategy.barrier()
    if trainer.is_global_zero:
        for name in names:
            partial = folders[name] / "complete.json.partial"
            partial.write_text(json.dumps(facts[name], indent=1))
            partial.replace(folders[name] / "complete.json")
    trainer.strategy.barrier()


def check_complete(folder: Path, facts: dict[str, Any]) -> None:
    """Raises ValueError if a folder holds the whole erasures of other facts."""
    file = folder / "complete.json"
    if file.exists() and (found := json.loads(file.read_text())) != facts:
        raise ValueError(f"{folder} was written by another run ({found}, now {facts}): remove it and run this again")


def _write_split(
    trainer: Trainer, split: str, stores: dict[str, Path], rule: Rule, facts: dict[str, dict[str, Any]]
) -> None:
    stored = set.intersection(*(_stored(store) for store in stores.values()))
    trainer.strategy.barrier()
    if trainer.is_global_zero:  # it makes store.json, which the others compare with
        writers = _open(trainer, stores, facts)
    trainer.strategy.barrier()
    if not trainer.is_global_zero:
        writers = _open(trainer, stores, facts)
    for batch in trainer.datamodule.ordered_dataloader(split):
        index = batch.index.tolist()
        if stored.issuperset(index):
            continue
        lengths = batch.inputs.attention_mask.sum(dim=1).tolist()
        erased = rule(trainer.strategy.batch_to_device(batch), split)
        for name, writer in writers.items():
            rows = erased[name].cpu().numpy()
            for row, (i, length) in enumerate(zip(index, lengths, strict=True)):
                if i not in stored:
                    writer.add(i, KEY, rows[row, :length])
    for writer in writers.values():
        writer.close()


def _stored(store: Path) -> set[int]:
    return {index for index, _ in RaggedStore(store).keys()} if (store / "store.json").exists() else set()


def _open(trainer: Trainer, stores: dict[str, Path], facts: dict[str, dict[str, Any]]) -> dict[str, RaggedWriter]:
    return {name: RaggedWriter(store, rank=trainer.global_rank, metadata=facts[name]) for name, store in stores.items()}


def explained_scores(module: LightningModule, method: AttributionMethod, batch: Batch, split: str) -> Tensor:
    """Returns a method's scores [B, T] for the gold class of every example."""
    if isinstance(method, ReadsSplit):
        method.split = split
    return method.attribute(module.network, batch.inputs, batch.labels.unsqueeze(1)).scores[:, 0]
