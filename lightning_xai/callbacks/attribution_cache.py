"""Writes attributions to disk as they are computed, for `Cached`, and reads them to compare runs."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np
from lightning import LightningModule, Trainer

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.callbacks.base import ExplainingCallback, explained_by
from lightning_xai.runs.fingerprint import weights_hash
from lightning_xai.runs.store import RaggedStore, RaggedWriter
from lightning_xai.types import Batch

TOKENS = "tokens"  # beside a method's scores
KEY = 0  # of token masks, which are those of all classes


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

    The RaggedStore `tokens` inside it has a row an example: 1 where a token may be explained, else 0. Rows that an
    earlier, perhaps interrupted, test of the same weights, examples and method stored are not written again.

    Args:
        cache_dir: folder of the stores; by default `attributions` in the run's folder.

    Raises:
        ValueError: a store holds scores of other weights, of other examples, or of a method with other settings.
    """

    def __init__(self, cache_dir: str | None = None, *, during_fit: bool = False) -> None:
        super().__init__(during_fit=during_fit)
        self.cache_dir = cache_dir
        self._stores: dict[tuple[str, str], tuple[_MissingRows, _MissingRows]] = {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._methods = explained_by(trainer, self, "AttributionCacheWriter").methods

    def on_explained_batch(
        self, trainer: Trainer, module: LightningModule, outputs: dict[str, Any], batch: Batch, split: str
    ) -> None:
        explained = outputs["explained"]
        lengths = explained.inputs.attention_mask.sum(dim=1).tolist()
        for name, attribution in outputs["attributions"].items():
            rows, tokens = self._open(trainer, module, split, name)
            scores, token_mask = attribution.scores.cpu().numpy(), attribution.token_mask.cpu().numpy()
            for row, (index, length) in enumerate(zip(explained.index.tolist(), lengths, strict=True)):
                targets, kept = attribution.targets[row].tolist(), attribution.target_mask[row].tolist()
                for k, target in enumerate(targets):
                    if kept[k]:
                        tokens.add(index, KEY, token_mask[row, :length])
                        rows.add(index, target, scores[row, k, :length])

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        for stores in self._stores.values():
            for store in stores:
                store.close()
        self._stores = {}

    def _open(
        self, trainer: Trainer, module: LightningModule, split: str, method: str
    ) -> tuple[_MissingRows, _MissingRows]:
        key = (split, method)
        if key not in self._stores:
            folder = Path(self.cache_dir or Path(trainer.default_root_dir) / "attributions") / split / method
            facts = {
                "split": split,
                "weights": weights_hash(module.network),
                "method": method_settings(self._methods[method]),
                "examples": trainer.datamodule.split(split).hash(),
            }
            scores = _MissingRows(folder, trainer.global_rank, facts)  # first, for it refuses other facts
            self._stores[key] = scores, _MissingRows(folder / TOKENS, trainer.global_rank, {"split": split})
        return self._stores[key]


class _MissingRows:
    """A process's shard of a store, to which only those rows are added that the store lacks."""

    def __init__(self, folder: Path, rank: int, facts: dict[str, Any]) -> None:
        self._writer = RaggedWriter(folder, rank=rank, metadata=facts)
        known = (folder / "store.json").exists()  # another rank may be about to write it
        self._stored = set(RaggedStore(folder).keys()) if known else set()

    def add(self, index: int, target: int, values: np.ndarray) -> None:
        if (index, target) not in self._stored:
            self._stored.add((index, target))
            self._writer.add(index, target, values)

    def close(self) -> None:
        self._writer.close()


def stored_methods(run: Path) -> list[tuple[str, str]]:
    """Returns (split, method) of all scores in a run's folder, or in a folder of such stores, in order."""
    return sorted((path.parts[-3], path.parts[-2]) for path in _cache_dir(run).glob("*/*/store.json"))


def open_scores(run: Path, split: str, method: str) -> RaggedStore:
    """Returns a method's scores in a run's folder, or in a folder of such stores.

    Raises:
        ValueError: there are none.
    """
    path = _cache_dir(run) / split / method
    if not (path / "store.json").exists():
        raise ValueError(f"{path} holds no scores: test that run with the same methods and an AttributionCacheWriter")
    return RaggedStore(path)


def _cache_dir(run: Path) -> Path:
    return run / "attributions" if (run / "attributions").is_dir() else run


def check_settings(store: RaggedStore, settings: dict[str, Any], examples: str | None) -> None:
    """Raises ValueError if the scores are those of a method with other settings than `settings`, or of other examples.

    Args:
        examples: hash of the split; None where it is not known.
    """
    if store.metadata.get("method") != settings:
        raise ValueError(
            f"{store.path} holds scores by {store.metadata.get('method')}, not by {settings}: use one of them"
        )
    if None not in (examples, stored := store.metadata.get("examples")) and stored != examples:
        raise ValueError(
            f"{store.path} holds scores of other examples: use the same source, encoder, seed and max_examples in all "
            "runs"
        )


def stored_row(store: RaggedStore, key: tuple[int, int], length: int, other: str) -> np.ndarray:
    """Returns the scores [length] of an example and class, not read from the disk yet.

    Args:
        other: name of the run that explains `key` and has `length` tokens of it.

    Raises:
        ValueError: they are not stored, or those of another number of tokens are.
    """
    if key not in store:
        raise ValueError(
            f"{store.path} has no scores for example {key[0]} and class {key[1]}: explain the same examples and "
            "classes in all runs, with targets: gold"
        )
    values = store.get(*key)
    if len(values) != length:
        raise ValueError(
            f"{store.path} has {len(values)} tokens of example {key[0]}, {other} {length}: use one encoder in all runs"
        )
    return values


def refuse_other_rows(store: RaggedStore, keys: Container[tuple[int, int]], other: str) -> None:
    """Raises ValueError if scores are stored of an example and class that the run `other` has not among its `keys`."""
    for index, target in store.keys():
        if (index, target) not in keys:
            raise ValueError(
                f"{store.path} has scores for example {index} and class {target}, which {other} does not explain: "
                "use the same max_examples and targets in all runs"
            )


def open_token_masks(store: RaggedStore) -> RaggedStore:
    """Returns the masks stored beside scores: by (index, KEY), 1 where a token may be explained.

    Raises:
        ValueError: an example's mask is missing, as in caches of earlier versions.
    """
    masks = RaggedStore(store.path / TOKENS) if (store.path / TOKENS / "store.json").exists() else ()
    for index, _ in store.keys():
        if (index, KEY) not in masks:
            raise ValueError(
                f"{store.path} does not tell which tokens of example {index} may be explained: test that run again, "
                "which adds it to the scores"
            )
    return masks
