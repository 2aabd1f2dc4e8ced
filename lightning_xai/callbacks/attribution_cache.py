"""Writes attributions to disk as they are computed, for the `cached` method and for comparisons between runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning import LightningModule, Trainer

from lightning_xai.callbacks.base import ExplainingCallback
from lightning_xai.store import RaggedWriter
from lightning_xai.types import Batch


class AttributionCacheWriter(ExplainingCallback):
    """Appends every score row to `<cache_dir>/<split>/<method>`, a RaggedStore with one shard a process.

    Args:
        cache_dir: folder of the stores; by default `attributions` in the run's folder.
    """

    def __init__(self, cache_dir: str | None = None, *, during_fit: bool = False) -> None:
        super().__init__(during_fit=during_fit)
        self.cache_dir = cache_dir
        self._writers: dict[tuple[str, str], RaggedWriter] = {}

    def on_explained_batch(
        self, trainer: Trainer, module: LightningModule, outputs: dict[str, Any], batch: Batch, split: str
    ) -> None:
        for name, attribution in outputs["attributions"].items():
            writer = self._writer(trainer, split, name)
            explained = outputs["explained"]
            lengths = explained.inputs.attention_mask.sum(dim=1).tolist()
            scores = attribution.scores.cpu().numpy()
            for row, (index, length) in enumerate(zip(explained.index.tolist(), lengths, strict=True)):
                for k, (target, kept) in enumerate(
                    zip(attribution.targets[row].tolist(), attribution.target_mask[row].tolist(), strict=True)
                ):
                    if kept:
                        writer.add(index, target, scores[row, k, :length])

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers = {}

    def _writer(self, trainer: Trainer, split: str, method: str) -> RaggedWriter:
        if (split, method) not in self._writers:
            folder = Path(self.cache_dir or Path(trainer.default_root_dir) / "attributions") / split / method
            metadata = {"split": split, "method": method}
            self._writers[split, method] = RaggedWriter(folder, rank=trainer.global_rank, metadata=metadata)
        return self._writers[split, method]
