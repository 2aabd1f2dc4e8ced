"""The pass over all splits that stores what later runs of a chain have erased."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning import LightningModule, Trainer
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.data.erasures import KEY
from lightning_xai.runs.format import with_format, without_format
from lightning_xai.runs.store import OLD_STORE, RaggedStore, RaggedWriter, is_store, read_json, write_json
from lightning_xai.types import Batch

COMPLETE = "complete.json"  # facts about erasures, written when all of them are there
# (batch, split, tokens that are erased already [B, T] bool) -> erased tokens [B, T] bool by the name of their folder
Rule = Callable[[Batch, str, Tensor], dict[str, Tensor]]


def splits_of(trainer: Trainer) -> list[str]:
    """Returns every split that a stage of the chain trains, validates or tests on, each once."""
    return list(dict.fromkeys(["train", "validation", *trainer.datamodule.test_splits]))


def write_erasures(trainer: Trainer, folders: dict[str, Path], rule: Rule, facts: dict[str, dict[str, Any]]) -> None:
    """Stores what `rule` erases of every example of every split, each process its share of the batches.

    A pass that was killed goes on where it stopped. Its last step writes `complete.json` into each folder.

    Args:
        folders: where the erasures of each name go; a store for each split.
        rule: called with a batch on the module's device, its split, and what the data module has erased already.
        facts: JSON-able metadata of each name.

    Raises:
        ValueError: a folder holds erasures of other facts.
    """
    for name, folder in folders.items():
        check_complete(folder, facts[name])
    names = [name for name, folder in folders.items() if read_complete(folder) is None]
    trainer.strategy.barrier()  # none may write before all have seen what is there
    if not names:
        return
    for split in splits_of(trainer):
        _write_split(trainer, split, {name: folders[name] / split for name in names}, rule, facts)
    trainer.strategy.barrier()
    if trainer.is_global_zero:
        for name in names:
            write_json(folders[name] / COMPLETE, with_format(facts[name]))
    trainer.strategy.barrier()


def check_complete(folder: Path, facts: dict[str, Any]) -> None:
    """Raises ValueError if a folder holds the whole erasures of other facts."""
    written = read_complete(folder)
    if written is not None and written != facts:
        raise ValueError(f"{folder} was written by another run ({written}, now {facts}): remove it and run this again")


def read_complete(folder: Path) -> dict[str, Any] | None:
    """Returns the facts about the erasures in a folder, or None unless all of them are there.

    Raises:
        ValueError: they are of another format.

    Example:
        >>> read_complete(Path("no/such/folder"))
    """
    file = folder / COMPLETE
    return without_format(read_json(file), folder, OLD_STORE) if file.exists() else None


def _write_split(
    trainer: Trainer, split: str, stores: dict[str, Path], rule: Rule, facts: dict[str, dict[str, Any]]
) -> None:
    data = trainer.datamodule
    facts = {name: {**facts[name], "examples": data.unerased_split(split).hash()} for name in stores}
    before = RaggedStore(Path(data.erasures, split)) if data.erasures is not None else None
    stored = set.intersection(*(_stored(store) for store in stores.values()))
    trainer.strategy.barrier()
    if trainer.is_global_zero:  # it makes store.json, which the others compare with
        writers = _open(trainer, stores, facts)
    trainer.strategy.barrier()
    if not trainer.is_global_zero:
        writers = _open(trainer, stores, facts)
    for batch in data.ordered_dataloader(split):
        index = batch.index.tolist()
        if stored.issuperset(index):
            continue
        lengths = batch.inputs.attention_mask.sum(dim=1).tolist()
        already = torch.zeros_like(batch.inputs.attention_mask)
        if before is not None:
            for row, i in enumerate(index):
                already[row, : lengths[row]] = torch.from_numpy(before.get(i, KEY) > 0.5)
        erased = rule(trainer.strategy.batch_to_device(batch), split, already.to(trainer.strategy.root_device))
        for name, writer in writers.items():
            rows = erased[name].cpu().numpy()
            for row, (i, length) in enumerate(zip(index, lengths, strict=True)):
                if i not in stored:
                    writer.add(i, KEY, rows[row, :length])
    for writer in writers.values():
        writer.close()


def _stored(store: Path) -> set[int]:
    return {index for index, _ in RaggedStore(store).keys()} if is_store(store) else set()


def _open(trainer: Trainer, stores: dict[str, Path], facts: dict[str, dict[str, Any]]) -> dict[str, RaggedWriter]:
    return {name: RaggedWriter(store, rank=trainer.global_rank, metadata=facts[name]) for name, store in stores.items()}


def explained_scores(module: LightningModule, method: AttributionMethod, batch: Batch, split: str) -> Tensor:
    """Returns a method's scores [B, T] for the gold class of every example."""
    return method.for_split(split).attribute(module.network, batch.inputs, batch.labels.unsqueeze(1)).scores[:, 0]
