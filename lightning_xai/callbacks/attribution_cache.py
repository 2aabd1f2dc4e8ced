"""Writes attribution scores to disk during an evaluation. The method `Cached` and comparisons of runs read them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from lightning import LightningModule, Trainer

from lightning_xai.callbacks.base import ExplainedBatch, ExplainedCallback, data_of, is_dry_run, network_of
from lightning_xai.callbacks.preflight.preflight_run import PreflightRun
from lightning_xai.runs.encoder_facts import encoder_metadata
from lightning_xai.runs.fingerprint import weights_hash
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.locks.ownership import own_scores, release_scores
from lightning_xai.runs.ranks import first_does
from lightning_xai.runs.stores.store import RaggedStore, RaggedWriter, check_metadata, is_store, read_metadata
from lightning_xai.runs.stores.stored_scores import (
    CLASS_NAMES,
    METHOD_WEIGHTS,
    NO_CLASS,
    TEXT_HASHES,
    TOKEN_MASKS,
    text_hash,
)


class AttributionCacheWriter(ExplainedCallback):
    """Stores the scores of every explained example and class in the folder `<cache_dir>/<split>/<method>`.

    The folder is a RaggedStore with one shard per process, and has two subfolders, which are also RaggedStores. The
    subfolder `tokens` holds a token mask for each example: 1 where a token may be explained, 0 elsewhere. The subfolder
    `hashes` holds a hash of each example's token ids, so that `Cached` notices if the texts have changed.

    Scores that are already stored, for example by an interrupted test, are not written again. If a test includes the
    validation split (`tune_on_validation` of the data), the scores of this split are stored, too, because a later test
    that reads the scores with `Cached` may tune thresholds on this split.

    Args:
        cache_dir: folder of the stores; by default `attributions` in the run's folder.
        during_fit: whether to also store scores during the validations of a fit.

    Raises:
        ValueError: at setup, if another command writes to the folder. During the run, if a store holds scores whose
            weights, examples, encoder, class names or method settings differ from those of this run.

    Example:
        >>> AttributionCacheWriter("runs/tm/seed0/attributions").cache_dir
        'runs/tm/seed0/attributions'
    """

    only_evaluates: ClassVar[bool] = True
    needs_validation_in_test = True

    def __init__(self, cache_dir: str | None = None, *, during_fit: bool = False) -> None:
        super().__init__(during_fit=during_fit)
        self.cache_dir = cache_dir
        self._writers: dict[tuple[str, str], _Stores] = {}  # (split, method) -> writers

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if self.active and not is_dry_run(trainer):
            first_does(lambda: own_scores(self._folder, RunFolder(Path(trainer.default_root_dir))))

    @property
    def _folder(self) -> Path:
        return Path(self.cache_dir or RunFolder(Path(self.trainer.default_root_dir)).attributions_dir)

    def on_explained(self, explained: ExplainedBatch) -> None:
        if not self.active:
            return
        indices = explained.batch.index.tolist()
        lengths = explained.batch.inputs.attention_mask.sum(dim=1).tolist()
        input_ids = explained.batch.inputs.input_ids.cpu().numpy()
        for name, attribution in explained.attributions.items():
            stores = self._open(explained.split, name)
            scores, token_mask = attribution.scores.cpu().numpy(), attribution.token_mask.cpu().numpy()
            for row, (index, length) in enumerate(zip(indices, lengths, strict=True)):
                for k in attribution.target_mask[row].nonzero().flatten().tolist():
                    target = int(attribution.targets[row, k])
                    stores.hashes.add(index, NO_CLASS, text_hash(input_ids[row, :length]))
                    stores.masks.add(index, NO_CLASS, token_mask[row, :length])
                    stores.scores.add(index, target, scores[row, k, :length])

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        for writers in self._writers.values():
            for writer in writers:
                writer.close()
        self._writers = {}
        if hasattr(self, "trainer"):
            release_scores(self._folder)

    def _metadata(self, split: str, method: str) -> dict[str, Any]:
        """Returns the metadata for the scores of a split and method. An existing store must have equal metadata."""
        folder, data, explainer = self._folder / split / method, data_of(self.trainer), self.source.methods[method]
        weights = explainer.trained_weights  # loads them first, because the method's settings depend on them
        metadata = {
            "split": split,
            "weights": weights_hash(network_of(self.module)),
            "method": explainer.settings(),
            "examples": data.split(split).hash(),
            **encoder_metadata(folder, data.encoder_facts()),
        }
        if weights:
            metadata[METHOD_WEIGHTS] = weights
        # a store that an older version of this package wrote has no class names, so they are not compared
        if not is_store(folder) or CLASS_NAMES in read_metadata(folder):
            metadata[CLASS_NAMES] = list(data.class_names)
        return metadata

    def on_preflight(self, preflight: PreflightRun) -> None:
        """Checks that this run may add scores to the stores that already exist. Writes nothing."""
        for stage in preflight.stages_of(self):
            for split in preflight.stages[stage]:
                for method in self.source.methods:
                    preflight.attempt(
                        f"AttributionCacheWriter of {method} on {split}",
                        partial(self._compare, split, method, is_trained=not preflight.fits),
                    )

    def _compare(self, split: str, method: str, *, is_trained: bool) -> None:
        """Raises an error if the metadata of an existing store differ from those of this run's scores.

        If `is_trained` is False, the hash of the weights is not compared, because training will change it.
        """
        folder = self._folder / split / method
        json.dumps(self.source.methods[method].settings())
        if not is_store(folder):
            return
        metadata = self._metadata(split, method)
        if not is_trained:
            stored = read_metadata(folder)
            metadata |= {key: stored[key] for key in ("weights", METHOD_WEIGHTS) if key in stored and key in metadata}
        check_metadata(folder, metadata)

    def _open(self, split: str, method: str) -> _Stores:
        """Returns the writers for a split and method. The first call opens them."""
        key = (split, method)
        if key not in self._writers:
            trainer = self.trainer
            folder = self._folder / split / method
            metadata = self._metadata(split, method)
            scores = _MissingRows(folder, trainer.global_rank, metadata)  # opened first, because it checks all metadata
            masks, hashes = (
                _MissingRows(folder / name, trainer.global_rank, {"split": split})
                for name in (TOKEN_MASKS, TEXT_HASHES)
            )
            self._writers[key] = _Stores(scores, masks, hashes)
        return self._writers[key]


class _MissingRows:
    """Writes rows to this process's shard of a store, except rows that the store already has."""

    def __init__(self, folder: Path, rank: int, metadata: dict[str, Any]) -> None:
        self._writer = RaggedWriter(folder, rank=rank, metadata=metadata)
        self._before = RaggedStore(folder)
        self._added: set[tuple[int, int]] = set()

    def add(self, index: int, target: int, values: np.ndarray) -> None:
        if (index, target) not in self._before and (index, target) not in self._added:
            self._added.add((index, target))
            self._writer.add(index, target, values)

    def close(self) -> None:
        self._writer.close()


class _Stores(NamedTuple):
    """The writers of the three stores for a split and method: scores, token masks and hashes of texts."""

    scores: _MissingRows
    masks: _MissingRows
    hashes: _MissingRows
