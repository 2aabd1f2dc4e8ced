"""The interface between the callback that computes attributions and the callbacks that use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.callbacks.cost import Cost, CostPerExample
from lightning_xai.metrics.base import PredictOnce
from lightning_xai.models.base import Classifier
from lightning_xai.types import Attribution, Batch


class ResultRow(CostPerExample):
    """One number of the results table, without the columns that are the same for the whole run."""

    split: str
    preset: str
    method: str
    metric: str
    value: float
    num_examples: int
    num_skipped: int


@runtime_checkable
class ResultSource(Protocol):
    """A callback that adds rows to the results table when a test has ended."""

    def result_rows(self) -> list[ResultRow]:
        """Returns the rows of the last evaluation."""
        ...


@dataclass(frozen=True)
class ExplainedBatch:
    """The explained examples of a batch with their attributions.

    Attributes:
        batch: the explained rows of the evaluated batch, at least one.
        attributions: by the name of the method; rows are those of `batch`.
        predict: the network's probabilities. Those of `batch.inputs` are computed once for all who ask.
        split: name of the split.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6], [7]])
        >>> scores = Attribution(torch.ones(2, 1, 2), torch.zeros(2, 1).long(), torch.ones(2, 1) > 0, inputs.token_mask)
        >>> predict = PredictOnce(lambda inputs, embed_mask=None: torch.eye(2)[: len(inputs)], inputs)
        >>> explained = ExplainedBatch(Batch(inputs, torch.tensor([0, 1])), {"ones": scores}, predict, "test")
        >>> explained[[1]].batch.index.tolist(), explained[[1]].attributions["ones"].token_mask.tolist()
        ([1], [[True, False]])
    """

    batch: Batch
    attributions: dict[str, Attribution]
    predict: PredictOnce
    split: str

    def __getitem__(self, rows: Any) -> ExplainedBatch:
        """Returns the given rows; `rows` is a slice, a list, or a boolean or long tensor."""
        batch = self.batch[rows]
        attributions = {name: attribution[rows] for name, attribution in self.attributions.items()}
        return ExplainedBatch(batch, attributions, self.predict.for_inputs(batch.inputs), self.split)


@runtime_checkable
class AttributionSource(Protocol):
    """The callback that computes attributions: its methods by name, and what each of them has cost so far."""

    methods: dict[str, AttributionMethod]
    costs: dict[str, Cost]
    during_fit: bool


@runtime_checkable
class ExplainedReceiver(Protocol):
    """A callback to which the last AttributionSource before it hands every explained batch."""

    def on_explained(self, explained: ExplainedBatch) -> None:
        """Is called at the end of every batch of which an example is explained."""
        ...


class ExplainedCallback(Callback, ABC):
    """Gets every explained batch from the last ComputeAttributions before it.

    After `setup` a subclass has `trainer`, `module`, `source` (that ComputeAttributions) and `active`: whether it works
    in this stage. A callback of another package need not be a subclass, only define `on_explained`.

    Args:
        during_fit: also work in the validation that `fit` runs every epoch. It is off by default, since attributions
            cost more than the training itself.

    Raises:
        ValueError: at setup, if no ComputeAttributions stands before it, or only one that does not work in `fit`.

    Example:
        >>> class CountExamples(ExplainedCallback):
        ...     total = 0
        ...
        ...     def on_explained(self, explained):
        ...         self.total += len(explained.batch)
        >>> isinstance(CountExamples(during_fit=True), ExplainedReceiver)
        True
    """

    def __init__(self, *, during_fit: bool = False) -> None:
        self.during_fit = during_fit

    @property
    def label(self) -> str:
        """The callback's name in error messages."""
        return type(self).__name__

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.trainer = trainer
        self.module = pl_module
        self.source = source_before(trainer, self, self.label)
        self.active = stage != "fit" or self.during_fit
        if self.active and stage == "fit" and not self.source.during_fit:
            raise ValueError(
                f"{self.label} has during_fit, but the ComputeAttributions before it has not: set it in both, or in "
                "neither"
            )

    @abstractmethod
    def on_explained(self, explained: ExplainedBatch) -> None:
        """Is called at the end of every batch of which an example is explained, whether active or not."""


def source_before(trainer: Trainer, callback: Callback, label: str) -> AttributionSource:
    """Returns the callback whose attributions `callback` gets: the last AttributionSource before it.

    Raises:
        ValueError: there is none; `label` names the callback in the message.
    """
    callbacks = callbacks_of(trainer)
    sources = [c for c in callbacks[: callbacks.index(callback)] if isinstance(c, AttributionSource)]
    if not sources:
        raise ValueError(f"{label} needs a ComputeAttributions before it in trainer.callbacks")
    return sources[-1]


def receivers_after(trainer: Trainer, source: Callback) -> list[ExplainedReceiver]:
    """Returns the callbacks that get the attributions of `source`: those after it, up to the next AttributionSource."""
    callbacks = callbacks_of(trainer)
    receivers: list[ExplainedReceiver] = []
    for callback in callbacks[callbacks.index(source) + 1 :]:
        if isinstance(callback, AttributionSource):
            break
        if isinstance(callback, ExplainedReceiver):
            receivers.append(callback)
    return receivers


def method_settings(method: AttributionMethod) -> dict[str, Any]:
    """Returns the class and the public attributes of a method, and of methods inside it, in types that JSON has.

    Example:
        >>> from lightning_xai.attributions.transformed import Transformed
        >>> from lightning_xai.attributions.gradient import Gradient
        >>> method_settings(Transformed(Gradient(), ["absolute"]))["transforms"]
        ['absolute']
    """
    settings: dict[str, Any] = {"class": type(method).__name__}
    for name, value in sorted(vars(method).items()):
        if isinstance(value, AttributionMethod):
            settings[name] = method_settings(value)
        elif not name.startswith("_") and isinstance(value, str | int | float | bool | list | None):
            settings[name] = value
    return settings


def callbacks_of(trainer: Trainer) -> list[Callback]:
    """Returns the trainer's callbacks in their order, which Lightning's Trainer does not declare for type checkers."""
    return getattr(trainer, "callbacks", [])


def data_of(trainer: Trainer) -> Any:
    """Returns the trainer's data module, None if it got loaders."""
    return getattr(trainer, "datamodule", None)


def network_of(module: LightningModule) -> Classifier:
    """Returns the classifier that a module trains or evaluates."""
    return cast(Classifier, module.network)


def decision_threshold_of(module: LightningModule) -> float:
    """Returns the probability above which a multi-label class counts as predicted."""
    return float(cast(Tensor, module.decision_threshold))


def test_splits(trainer: Trainer) -> list[str]:
    """Returns the names of the splits that a test evaluates, in the order of their loaders."""
    return getattr(data_of(trainer), "test_splits", None) or ["test"]


def split_of_loader(trainer: Trainer, dataloader_idx: int) -> str:
    """Returns the name of the split behind a test loader; "test", "test1", ... without a data module."""
    names = getattr(data_of(trainer), "test_splits", None)
    return names[dataloader_idx] if names else ("test" if dataloader_idx == 0 else f"test{dataloader_idx}")


def first_examples(trainer: Trainer, batch: Batch, split: str, num_examples: int | None) -> Tensor:
    """Returns [B] bool: whether an example is one of the first `num_examples` (None: all) that its split loads."""
    if num_examples is None:
        return torch.ones_like(batch.index, dtype=torch.bool)
    last = num_examples - 1
    if hasattr(data_of(trainer), "split"):
        loaded = data_of(trainer).split(split).index  # ascending, with gaps where the data was subsampled
        last = int(loaded[min(num_examples, len(loaded)) - 1])
    return batch.index <= last
