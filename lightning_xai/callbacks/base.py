"""What the evaluation callbacks share: the stages they run in, the split they are in, the rows they report."""

from __future__ import annotations

from typing import Any, Protocol, TypedDict, runtime_checkable

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from lightning_xai.types import Batch


@runtime_checkable
class FollowUp(Protocol):
    """An objective or a callback that may need another fit: a missing teacher before, a re-masked data set after."""

    def follow_up(self, trainer: Trainer) -> list[str]:
        """Returns command-line overrides for that fit, or [] when nothing is asked for.

        Asked twice: before `trainer.fit` (trainer.state.fn is then None, trainer.datamodule there) and after the
        test that ends it.
        """
        ...


@runtime_checkable
class NamesExperiment(Protocol):
    """The callback that knows what the command calls the run."""

    experiment: str
    seed: int
    tests_after_fit: bool


class ResultRow(TypedDict):
    """One number of the results table, without the columns that are the same for the whole run."""

    split: str
    preset: str
    method: str
    metric: str
    value: float
    num_examples: int
    num_skipped: int
    forward_passes: float  # per example; NaN where it does not apply, as for the next three
    backward_passes: float
    seconds: float  # per example
    peak_memory_mb: float


@runtime_checkable
class Explains(Protocol):
    """The callback that computes attributions: which methods it runs, and what each has cost so far."""

    methods: dict[str, Any]
    costs: dict[str, Any]


@runtime_checkable
class Reports(Protocol):
    """A callback that contributes rows to the results table once the test has ended."""

    def result_rows(self) -> list[ResultRow]: ...


class ExplainingCallback(Callback):
    """Routes the batch ends of validation, test and predict to `on_explained_batch` with the name of the split.

    Args:
        during_fit: also work in the validation that `fit` runs every epoch; off by default, since attributions there
            cost more than the training itself.
    """

    def __init__(self, *, during_fit: bool = False) -> None:
        self.during_fit = during_fit

    def on_explained_batch(
        self, trainer: Trainer, module: LightningModule, outputs: dict[str, Any], batch: Batch, split: str
    ) -> None:
        raise TypeError(f"{type(self).__name__} must define on_explained_batch")

    def active(self, trainer: Trainer) -> bool:
        return self.during_fit or trainer.state.fn != TrainerFn.FITTING

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        if self.active(trainer) and not trainer.sanity_checking:
            self.on_explained_batch(trainer, pl_module, outputs, batch, "validation")

    def on_test_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        self.on_explained_batch(trainer, pl_module, outputs, batch, test_split(trainer, dataloader_idx))

    def on_predict_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        split = getattr(trainer.datamodule, "predict_split", "predict")
        self.on_explained_batch(trainer, pl_module, outputs, batch, split)


def explained_by(trainer: Trainer, callback: Callback, name: str) -> Explains:
    """Returns the callback whose attributions are in the outputs that `callback` gets: the last one before it.

    Raises:
        ValueError: there is none; says so of `name`.
    """
    before = trainer.callbacks[: trainer.callbacks.index(callback)]
    found = [other for other in before if isinstance(other, Explains)]
    if not found:
        raise ValueError(f"{name} needs a ComputeAttributions before it in trainer.callbacks")
    return found[-1]


def test_split(trainer: Trainer, dataloader_idx: int) -> str:
    """Returns the name of the split behind a test loader."""
    names = getattr(trainer.datamodule, "test_splits", None)
    return names[dataloader_idx] if names else ("test" if dataloader_idx == 0 else f"test{dataloader_idx}")


def among_first(trainer: Trainer, batch: Batch, split: str, num_examples: int | None) -> Tensor:
    """Returns [B] bool: whether an example is one of the first `num_examples` (None: all) that its split loads."""
    if num_examples is None:
        return torch.ones_like(batch.index, dtype=torch.bool)
    last = num_examples - 1
    if trainer.datamodule is not None and hasattr(trainer.datamodule, "split"):
        loaded = trainer.datamodule.split(split).index  # ascending, with gaps where the data was subsampled
        last = int(loaded[min(num_examples, len(loaded)) - 1])
    return batch.index <= last
