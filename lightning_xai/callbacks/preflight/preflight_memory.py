"""Remembers which preflights succeeded or failed, within a command and across the commands of a chain of runs.

A preflight tries all methods and metrics on two short texts, before a run starts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from lightning import Trainer

from lightning_xai.callbacks.base import callbacks_of, is_dry_run
from lightning_xai.callbacks.preflight.preflight_run import Failure
from lightning_xai.runs.files.whole_files import read_json, write_json
from lightning_xai.runs.ranks import gather

# what one part of a preflight (trial before a run) covers: a stage of the trainer (such as "fit") and a split
StageAndSplit = tuple[str, str]


@runtime_checkable
class KeepsPreflights(Protocol):
    """A callback that knows the file in which a chain records successful preflights, so that later runs can skip them.

    Example:
        >>> class Chained:
        ...     def preflight_record(self, trainer):
        ...         return Path("runs/roar/seed0/preflights.json")
        >>> isinstance(Chained(), KeepsPreflights)
        True
    """

    def preflight_record(self, trainer: Trainer) -> Path:
        """Returns the file in which the chain records its successful preflights (trials before a run)."""
        ...


@dataclass
class PreflightMemory:
    """Outcomes of the preflights (trials before a run) in this command, so that later runs of a chain can skip them.

    The keys identify the methods, network and data of a preflight.

    Attributes:
        tried: key -> the pairs (stage of the trainer, split) that were tried.
        failures: key -> the failures of the methods and metrics that were left out, as a dict from a description of
            the method or metric to its failure.

    Example:
        >>> PreflightMemory().tried
        {}
    """

    tried: dict[str, set[StageAndSplit]] = field(default_factory=dict)
    failures: dict[str, dict[str, Failure]] = field(default_factory=dict)

    def recall(self, key: str, trainer: Trainer) -> None:
        """Reads from the chain's file which preflights for `key` have succeeded, and adds them to `tried`.

        Only preflights on the same kind of device and with the same version of PyTorch are added. Every process must
        call this method.
        """
        record = record_of(trainer)
        if record is not None:
            # all processes use what process 0 has read, because another command may change the file meanwhile
            self.tried.setdefault(key, set()).update(gather(_read(record, _digest(key, trainer)))[0])

    def record(self, key: str, trainer: Trainer) -> None:
        """If nothing failed, adds the preflight for `key` to the chain's file, so that other commands skip it."""
        record = record_of(trainer)
        if record is not None and trainer.is_global_zero and not self.failures.get(key):
            digest = _digest(key, trainer)
            parts = self.tried.get(key, set()) | _read(record, digest)
            write_json(record, (read_json(record) if record.exists() else {}) | {digest: sorted(parts)})


def record_of(trainer: Trainer) -> Path | None:
    """Returns the file in which a chain records its preflights; None without a chain, or in fast_dev_run mode.

    Example:
        >>> print(record_of(Trainer(logger=False, accelerator="cpu")))
        None
    """
    if is_dry_run(trainer):
        return None
    return next(
        (part.preflight_record(trainer) for part in callbacks_of(trainer) if isinstance(part, KeepsPreflights)), None
    )


def _read(file: Path, digest: str) -> set[StageAndSplit]:
    return {(stage, split) for stage, split in read_json(file).get(digest, [])} if file.exists() else set()


def _digest(key: str, trainer: Trainer) -> str:
    """Returns a short hash of `key` (which identifies a preflight), the kind of device and the PyTorch version."""
    device = trainer.strategy.root_device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return hashlib.sha256(f"{key} {name} {torch.__version__}".encode()).hexdigest()[:12]
