"""Writes attributions to disk as they are computed, for the `cached` method and for comparisons between runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning import LightningModule, Trainer

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.callbacks.base import ExplainingCallback, Explains
from lightning_xai.functional.fingerprint import weights_hash
from lightning_xai.store import RaggedStore, RaggedWriter
from lightning_xai.types import Batch


def method_settings(method: AttributionMethod) -> dict[str, Any]:
    """Returns a method's class and public attributes, JSON-able, methods inside it likewise."""
    settings: dict[str, Any] = {"class": type(method).__name__}
    for name, value in sorted(vars(method).items()):
        if isinstance(value, AttributionMethod):
            settings[name] = method_settings(value)
        elif not name.startswith("_") and isinstance(value, str | int | float | bool | list | None):
            settings[name] = value
    return settings


class AttributionCacheWriter(ExplainingCallback):
    """Appends every score row to `<cache_dir>/<split>/<method>`, a RaggedStore with one shard a process.

    Rows that an earlier, perhaps interrupted, test of the same weights and method stored are not written again.

    Args:
        cache_dir: folder of the stores; by default `attributions` in the run's folder.

    Raises:
        ValueError: a store holds scores of other weights, or of a method with other settings.
    """

    def __init__(self, cache_dir: str | None = None, *, during_fit: bool = False) -> None:
        super().__init__(during_fit=during_fit)
        self.cache_dir = cache_dir
        self._writers: dict[tuple[str, str], RaggedWriter] = {}
        self._stored: dict[tuple[str, str], set[tuple[int, int]]] = {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        found = [callback for callback in trainer.callbacks if isinstance(callback, Explains)]
        if not found:
            raise ValueError("AttributionCacheWriter needs a ComputeAttributions before it in trainer.callbacks")
        self._methods = found[0].methods

    def on_explained_batch(
        self, trainer: Trainer, module: LightningModule, outputs: dict[str, Any], batch: Batch, split: str
    ) -> None:
        explained = outputs["explained"]
        lengths = explained.inputs.attention_mask.sum(dim=1).tolist()
        for name, attribution in outputs["attributions"].items():
            writer, stored = self._open(trainer, module, split, name)
            scores = attribution.scores.cpu().numpy()
            for row, (index, length) in enumerate(zip(explained.index.tolist(), lengths, strict=True)):
                targets, kept = attribution.targets[row].tolist(), attribution.target_mask[row].tolist()
                for k, target in enumerate(targets):
                    if kept[k] and (index, target) not in stored:
                        stored.add((index, target))
                        writer.add(index, target, scores[row, k, :length])

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers, self._stored = {}, {}

    def _open(
        self, trainer: Trainer, module: LightningModule, split: str, method: str
    ) -> tuple[RaggedWriter, set[tuple[int, int]]]:
        key = (split, method)
        if key not in self._writers:
            folder = Path(self.cache_dir or Path(trainer.default_root_dir) / "attributions") / split / method
            settings = method_settings(self._methods[method])
            facts = {"split": split, "weights": weights_hash(module.network), "method": settings}
            self._writers[key] = RaggedWriter(folder, rank=trainer.global_rank, metadata=facts)
            known = (folder / "store.json").exists()  # another rank may be about to write it
            self._stored[key] = set(RaggedStore(folder).keys()) if known else set()
        return self._writers[key], self._stored[key]
