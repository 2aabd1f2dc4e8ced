"""The erasure pass: goes over all examples and stores which of their tokens are erased in later runs of a chain.

One such choice of tokens, for all examples, is called an erasure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning import Trainer
from torch import Tensor

from lightning_xai.callbacks.base import data_of
from lightning_xai.data.erasures import KEY
from lightning_xai.data.module import TextDataModule
from lightning_xai.runs.counted import Counted
from lightning_xai.runs.encoder_facts import encoder_metadata
from lightning_xai.runs.files.whole_files import read_json, write_json
from lightning_xai.runs.format import with_format, without_format
from lightning_xai.runs.splits import VALIDATION
from lightning_xai.runs.stores.store import OLD_STORE, RaggedStore, RaggedWriter, is_store
from lightning_xai.types import Batch

COMPLETE = "complete.json"  # file with the facts about an erasure; it is written last, when the folder is complete
ErasureFacts = Mapping[str, Any]  # how the tokens of an erasure were chosen, such as the method, in JSON types
# (batch, split, mask [B, T] of tokens not yet erased) -> {name of an erasure: mask [B, T] of tokens to keep}
KeepMasks = Callable[[Batch, str, Tensor], dict[str, Tensor]]


def write_erasures(
    trainer: Trainer, folders: dict[str, Path], keep_masks: KeepMasks, facts: Mapping[str, ErasureFacts]
) -> None:
    """Stores which tokens are erased in every example of every split. Each process writes its share of the batches.

    After an interruption, a second call continues where the first call stopped. If a folder is complete, only missing
    splits are written, such as a new test split. At the end, `complete.json` is written to each folder.

    Args:
        trainer: the trainer of a run whose test has ended.
        folders: name of an erasure -> its folder, which gets one store per split.
        keep_masks: function that decides which tokens are not erased. It gets batches on the device of the module.
        facts: name of an erasure -> facts to store with this erasure.

    Raises:
        ValueError: a folder holds an erasure with other facts or in another format.
    """
    for name, folder in folders.items():
        check_complete(folder, facts[name])
    missing = {
        split: [name for name in folders if not _is_complete(trainer, folders[name], split)]
        for split in splits_of(trainer)
    }
    trainer.strategy.barrier()  # no process may write before all processes have read the folders
    if not any(missing.values()):
        return
    for split, names in missing.items():
        if names:
            _write_split(trainer, split, {name: folders[name] / split for name in names}, keep_masks, facts)
    trainer.strategy.barrier()
    if trainer.is_global_zero:
        for name, folder in folders.items():
            write_json(folder / COMPLETE, with_format(facts[name]))
    trainer.strategy.barrier()


def check_complete(folder: Path, facts: ErasureFacts) -> None:
    """Raises ValueError if a complete folder stores erased tokens that were not chosen as `facts` describes.

    Example:
        >>> check_complete(Path("no/such/folder"), {"method": "gradient"})
    """
    written = read_complete(folder)
    if written is not None and written != facts:
        raise ValueError(
            f"{folder} was written by another run (its facts are {written}, but this run has {facts}): remove this "
            "folder and repeat the command"
        )


def read_complete(folder: Path) -> dict[str, Any] | None:
    """Returns the facts about the erasure that a folder holds, or None if the erasure is missing or incomplete.

    Raises:
        ValueError: the erasure is stored in the format of another version of this package.

    Example:
        >>> print(read_complete(Path("no/such/folder")))
        None
    """
    file = folder / COMPLETE
    return without_format(read_json(file), folder, OLD_STORE) if file.exists() else None


def text_data_of(trainer: Trainer) -> TextDataModule:
    """Returns the trainer's data module.

    Raises:
        ValueError: the data module is not a TextDataModule, which is needed to erase tokens.

    Example:
        >>> text_data_of(Trainer(logger=False, accelerator="cpu", enable_progress_bar=False))
        Traceback (most recent call last):
        ValueError: a chain needs a TextDataModule to erase tokens, but data has type NoneType
    """
    data = data_of(trainer)
    if not isinstance(data, TextDataModule):
        raise ValueError(f"a chain needs a TextDataModule to erase tokens, but data has type {type(data).__name__}")
    return data


def splits_of(trainer: Trainer) -> list[str]:
    """Returns the splits on which a chain's runs train, validate and test."""
    return list(dict.fromkeys(["train", VALIDATION, *text_data_of(trainer).test_splits]))


def _is_complete(trainer: Trainer, folder: Path, split: str) -> bool:
    """Returns whether a folder is complete and has all examples of a split.

    A folder with `complete.json` may still lack a test split that was added later.
    """
    if read_complete(folder) is None or split in ("train", VALIDATION):
        return read_complete(folder) is not None
    index = text_data_of(trainer).unerased_split(split).index
    return bool(np.isin(index, _stored_examples(folder / split)).all())


def _write_split(
    trainer: Trainer, split: str, stores: dict[str, Path], keep_masks: KeepMasks, facts: Mapping[str, ErasureFacts]
) -> None:
    data = text_data_of(trainer)
    examples, own = data.unerased_split(split).hash(), data.encoder_facts()
    metadata = {
        name: {**facts[name], "examples": examples, **encoder_metadata(store, own)} for name, store in stores.items()
    }
    erased_before = RaggedStore(Path(data.erasures, split)) if data.erasures is not None else None
    stored = reduce(np.intersect1d, map(_stored_examples, stores.values()))
    trainer.strategy.barrier()
    if trainer.is_global_zero:  # process 0 goes first, because it writes store.json for all processes
        writers = _open_writers(trainer, stores, metadata)
    trainer.strategy.barrier()
    if not trainer.is_global_zero:
        writers = _open_writers(trainer, stores, metadata)
    missing = np.setdiff1d(data.unerased_split(split).index, stored)
    methods = ", ".join(dict.fromkeys(str(facts[name].get("method", name)) for name in stores))
    counted = Counted(f"{split}: tokens to erase are chosen by {methods}", len(missing) / trainer.world_size)
    for batch in counted.over(
        data.ordered_dataloader(split), lambda batch: int(np.isin(batch.index.numpy(), missing).sum())
    ):
        index = batch.index.tolist()
        is_stored = np.isin(index, stored).tolist()
        if all(is_stored):
            continue
        lengths = batch.inputs.attention_mask.sum(dim=1).tolist()
        keep = torch.ones_like(batch.inputs.attention_mask)
        if erased_before is not None:
            for row, example in enumerate(index):
                keep[row, : lengths[row]] = torch.from_numpy(erased_before.get(example, KEY) <= 0.5)
        device = trainer.strategy.root_device
        masks = keep_masks(trainer.strategy.batch_to_device(batch), split, keep.to(device))
        for name, writer in writers.items():
            erased = (~masks[name]).cpu().numpy()
            for row, (example, length) in enumerate(zip(index, lengths, strict=True)):
                if not is_stored[row]:
                    writer.add(example, KEY, erased[row, :length])
    for writer in writers.values():
        writer.close()


def _stored_examples(store: Path) -> np.ndarray:
    return RaggedStore(store).examples if is_store(store) else np.zeros(0, dtype=np.int64)


def _open_writers(
    trainer: Trainer, stores: dict[str, Path], metadata: dict[str, dict[str, Any]]
) -> dict[str, RaggedWriter]:
    rank = trainer.global_rank
    return {name: RaggedWriter(store, rank=rank, metadata=metadata[name], bits=True) for name, store in stores.items()}
