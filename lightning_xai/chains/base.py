"""What ROAR and FRESH share: a run writes what later runs train on, starts them, and gathers their scores."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.chains.erasure_pass import write_erasures
from lightning_xai.chains.stages import Chain, Stage
from lightning_xai.functional.modes import eager_attention
from lightning_xai.runs.fingerprint import weights_hash
from lightning_xai.runs.store import write_whole
from lightning_xai.types import Batch


class ChainCallback(Callback, ABC):
    """Runs a chain of stages, of which the run that it is added to is the first; a finished stage is never repeated.

    Args:
        methods: attribution methods by the name that folders and tables show.
        stages: of the chain, in their order.
    """

    explained: ClassVar[str]  # the one class of an example whose explanation is erased, for errors

    def __init__(self, methods: Mapping[str, AttributionMethod], stages: Sequence[Stage]) -> None:
        self.methods = dict(methods)
        self.stages = list(stages)
        self._fitted = False

    @abstractmethod
    def written_by(self, stage: Stage) -> dict[str, dict[str, Any]]:
        """Returns the erasures that a stage's best checkpoint yields: their names, and "method" among their facts."""

    @abstractmethod
    def erase(
        self, module: LightningModule, batch: Batch, split: str, before: Tensor, written: dict[str, dict[str, Any]]
    ) -> dict[str, Tensor]:
        """Returns the erased tokens [B, T] bool by name, where those of `before` [B, T] are erased already."""

    @abstractmethod
    def report(self, chain: Chain) -> None:
        """Writes and prints what all stages of a finished chain have scored; called in one process."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if pl_module.network.multilabel:
            name = type(self).__name__
            raise ValueError(f"{name} explains the one {self.explained} class of an example: use single-label data")

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._fitted = True

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the erasures that other runs train on, if the test is the one that ends a fit."""
        chain, stage = self.chain(trainer)
        written = self.written_by(stage)
        if not written or not self._fitted or trainer.fast_dev_run:
            return
        began, weights = time.monotonic(), weights_hash(pl_module.network)
        used = [self.methods[facts["method"]] for facts in written.values() if facts["method"] in self.methods]
        with eager_attention(pl_module.network, wanted=any(method.needs_attentions for method in used)):
            write_erasures(
                trainer,
                {name: chain.erasures(name) for name in written},
                lambda batch, split, before: self.erase(pl_module, batch, split, before, written),
                {name: {**facts, "weights": weights} for name, facts in written.items()},
            )
        if trainer.is_global_zero:
            print(f"{type(self).__name__}: {len(written)} erasures written, {time.monotonic() - began:.1f} s")

    def follow_up(self, trainer: Trainer) -> list[str]:
        """Returns overrides for the first run that is not finished; before a fit it says which one this is."""
        if trainer.fast_dev_run:
            return []
        chain, stage = self.chain(trainer)
        if trainer.state.fn is None:
            chain.begin(stage, trainer)
            if trainer.is_global_zero:
                print(chain.progress(stage, type(self).__name__))
            return []
        chain.check_finished()
        unfinished = chain.unfinished()
        if unfinished:
            return chain.overrides(unfinished[0], trainer)
        if trainer.is_global_zero:
            self.report(chain)
        return []

    def chain(self, trainer: Trainer) -> tuple[Chain, Stage]:
        """Returns the chain to which the trainer's run belongs, and the stage that it is."""
        return Chain.of_run(Path(trainer.default_root_dir), self.stages)


def scores_of(chain: Chain, stage: Stage) -> pd.DataFrame:
    """Returns how a finished stage classifies its test splits, and in "run" which one it is."""
    table = pd.read_parquet(chain.run(stage) / "results.parquet")
    rows = table[(table["preset"] == "") & (table["split"] != "validation")]
    return rows.assign(run=chain.run(stage).relative_to(chain.root.parents[1]).as_posix())


def write_csv(table: pd.DataFrame, file: Path) -> None:
    """Writes a table in one step."""
    write_whole(file, lambda partial: table.to_csv(partial, index=False))
