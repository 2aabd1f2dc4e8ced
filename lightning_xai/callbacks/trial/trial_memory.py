"""What was tried before: in this command, and in the commands of a chain's other stages."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from lightning import Trainer

from lightning_xai.callbacks.base import callbacks_of, is_dry_run
from lightning_xai.callbacks.trial.tried import Failure
from lightning_xai.runs.files.whole_files import read_json, write_json
from lightning_xai.runs.ranks import gather

Part = tuple[str, str]  # a stage of the trainer, such as "fit", and a split


@runtime_checkable
class KeepsTrials(Protocol):
    """A callback whose runs are parts of a chain. What one of the runs has tried is not tried in the others.

    Example:
        >>> class Chained:
        ...     def trial_record(self, trainer):
        ...         return Path("runs/roar/seed0/trials.json")
        >>> isinstance(Chained(), KeepsTrials)
        True
    """

    def trial_record(self, trainer: Trainer) -> Path:
        """Returns the file of the chain that records what was tried."""
        ...


@dataclass
class TrialMemory:
    """The outcomes of earlier trials of the same command. The stages of a chain use them instead of repeating a trial.

    Attributes:
        tried: the stages and splits that were tried, by a key for the methods, the network and the data.
        failures: the failed parts that were left out, by the same key.

    Example:
        >>> TrialMemory().tried
        {}
    """

    tried: dict[str, set[Part]] = field(default_factory=dict)
    failures: dict[str, dict[str, Failure]] = field(default_factory=dict)

    def recall(self, key: str, trainer: Trainer) -> None:
        """Adds what other commands of the chain have tried on such a device without a failure.

        Every process must call this method.
        """
        record = record_of(trainer)
        if record is not None:
            # the first process reads for all, since another command may write meanwhile
            self.tried.setdefault(key, set()).update(gather(_read(record, _digest(key, trainer)))[0])

    def record(self, key: str, trainer: Trainer) -> None:
        """If nothing failed, writes down what was tried, so that other commands of the chain need not try it again."""
        record = record_of(trainer)
        if record is not None and trainer.is_global_zero and not self.failures.get(key):
            digest = _digest(key, trainer)
            parts = self.tried.get(key, set()) | _read(record, digest)
            write_json(record, (read_json(record) if record.exists() else {}) | {digest: sorted(parts)})


def record_of(trainer: Trainer) -> Path | None:
    """Returns the file in which a chain's runs record what they tried; None outside of a chain and in a dry run.

    Example:
        >>> print(record_of(Trainer(logger=False, accelerator="cpu")))
        None
    """
    if is_dry_run(trainer):
        return None
    return next((part.trial_record(trainer) for part in callbacks_of(trainer) if isinstance(part, KeepsTrials)), None)


def _read(file: Path, digest: str) -> set[Part]:
    return {(stage, split) for stage, split in read_json(file).get(digest, [])} if file.exists() else set()


def _digest(key: str, trainer: Trainer) -> str:
    """Returns a short text for a trial's key, the kind of device and the version of PyTorch."""
    device = trainer.strategy.root_device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return hashlib.sha256(f"{key} {name} {torch.__version__}".encode()).hexdigest()[:12]
