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
    """A callback that adds rows to the results table when a test has ended.

    Example:
        >>> from lightning_xai.callbacks.stability import Stability
        >>> isinstance(Stability(["tm/seed*"]), ResultSource), isinstance(Callback(), ResultSource)
        (True, False)
    """

    def result_rows(self) -> list[ResultRow]:
        """Returns the rows of the last evaluation."""
        ...


@dataclass(frozen=True)
class ExplainedBatch:
    """The explained examples of a batch with their attributions.

    Attributes:
        batch: the explained examples, at least one.
        attributions: by the name of the method, for the examples of `batch`.
        predict: the network's probabilities. Those of `batch.inputs` are computed once, for all callbacks.
        split: name of the split.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6], [7]])
        >>> attribution = Attribution.of_scores([[[1.0, 2.0]], [[3.0, 0.0]]], inputs.token_mask)
        >>> predict = PredictOnce(lambda inputs, embed_mask=None: torch.eye(2)[: len(inputs)], inputs)
        >>> explained = ExplainedBatch(Batch(inputs, torch.tensor([0, 1])), {"method": attribution}, predict, "test")
        >>> second = explained[[1]]
        >>> second.batch.index.tolist(), second.attributions["method"].scores.tolist()
        ([1], [[[3.0, 0.0]]])
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
    """The callback that computes attributions.

    Attributes:
        methods: by the name that tables show.
        costs: of each method so far.
        during_fit: whether it also works in the validation of a fit.

    Example:
        >>> from lightning_xai.attributions.random import Random
        >>> from lightning_xai.callbacks.attributions import ComputeAttributions
        >>> isinstance(ComputeAttributions({"random": Random()}), AttributionSource)
        True
    """

    methods: dict[str, AttributionMethod]
    costs: dict[str, Cost]
    during_fit: bool


@runtime_checkable
class ExplainedReceiver(Protocol):
    """A callback that gets every explained batch from the last AttributionSource before it.

    Example:
        >>> class LargestScore(Callback):
        ...     def on_explained(self, explained):
        ...         print({name: float(a.scores.max()) for name, a in explained.attributions.items()})
        >>> isinstance(LargestScore(), ExplainedReceiver)
        True
    """

    def on_explained(self, explained: ExplainedBatch) -> None:
        """Uses one batch; it is called at the batch's end, after the attributions are computed."""
        ...


class ExplainedCallback(Callback, ABC):
    """Base class of callbacks that use attributions; a callback of another package need only define `on_explained`.

    From setup on it has `trainer`, `module` (the objective), `source` (the last ComputeAttributions before it) and
    `active` (whether it works in this stage).

    Args:
        during_fit: also work in the validation that `fit` runs every epoch. It is off by default, since attributions
            cost more than the training itself.

    Raises:
        ValueError: at setup, if there is no ComputeAttributions before it, or if only this callback has `during_fit`.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> class NumExamples(ExplainedCallback):
        ...     def on_explained(self, explained):
        ...         print(len(explained.batch), "examples of", explained.split)
        >>> inputs = TextInputs.of_ids([[5, 6], [7]])
        >>> batch = Batch(inputs, torch.tensor([0, 1]))
        >>> NumExamples().on_explained(ExplainedBatch(batch, {}, PredictOnce(lambda inputs: inputs, inputs), "test"))
        2 examples of test
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
        """Uses one batch. It is called in every stage that is explained, so check `active` first."""


def source_before(trainer: Trainer, callback: Callback, label: str) -> AttributionSource:
    """Returns the callback whose attributions `callback` gets: the last AttributionSource before it.

    Raises:
        ValueError: there is none; `label` names the callback in the message.

    Example:
        >>> source_before(Trainer(callbacks=[last := Callback()], logger=False), last, "The last callback")
        Traceback (most recent call last):
        ValueError: The last callback needs a ComputeAttributions before it in trainer.callbacks
    """
    callbacks = callbacks_of(trainer)
    sources = [c for c in callbacks[: callbacks.index(callback)] if isinstance(c, AttributionSource)]
    if not sources:
        raise ValueError(f"{label} needs a ComputeAttributions before it in trainer.callbacks")
    return sources[-1]


def receivers_after(trainer: Trainer, source: Callback) -> list[ExplainedReceiver]:
    """Returns the callbacks that get the attributions of `source`: those after it, up to the next AttributionSource.

    Example:
        >>> from lightning_xai.attributions.random import Random
        >>> from lightning_xai.callbacks.attributions import ComputeAttributions
        >>> from lightning_xai.callbacks.attribution_cache import AttributionCacheWriter
        >>> source, writer = ComputeAttributions({"random": Random()}), AttributionCacheWriter()
        >>> receivers_after(Trainer(callbacks=[source, writer], logger=False), source) == [writer]
        True
    """
    callbacks = callbacks_of(trainer)
    receivers: list[ExplainedReceiver] = []
    for callback in callbacks[callbacks.index(source) + 1 :]:
        if isinstance(callback, AttributionSource):
            break
        if isinstance(callback, ExplainedReceiver):
            receivers.append(callback)
    return receivers


def callbacks_of(trainer: Trainer) -> list[Callback]:
    """Returns the trainer's callbacks in their order, an attribute that Lightning does not declare.

    Example:
        >>> type(callbacks_of(Trainer(callbacks=[Callback()], logger=False))[0]).__name__
        'Callback'
    """
    return getattr(trainer, "callbacks", [])


def data_of(trainer: Trainer) -> Any:
    """Returns the trainer's data module, or None if it was given loaders.

    Example:
        >>> data_of(Trainer(logger=False)) is None
        True
    """
    return getattr(trainer, "datamodule", None)


def is_dry_run(trainer: Trainer) -> bool:
    """Returns whether this is a fast_dev_run: a few batches to find errors, after which no file is left.

    Example:
        >>> is_dry_run(Trainer(fast_dev_run=True, logger=False)), is_dry_run(Trainer(logger=False))
        (True, False)
    """
    return bool(getattr(trainer, "fast_dev_run", False))


def network_of(module: LightningModule) -> Classifier:
    """Returns the classifier that an objective trains or evaluates.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> network_of(Supervised(random_bert())).num_classes
        2
    """
    return cast(Classifier, module.network)


def decision_threshold_of(module: LightningModule) -> float:
    """Returns the probability above which a multi-label class counts as predicted.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> decision_threshold_of(Supervised(random_bert()))
        0.5
    """
    return float(cast(Tensor, module.decision_threshold))


def test_splits(trainer: Trainer) -> list[str]:
    """Returns the names of the splits that a test evaluates, in the order of their loaders.

    Example:
        >>> test_splits(Trainer(logger=False))
        ['test']
    """
    return getattr(data_of(trainer), "test_splits", None) or ["test"]


def split_of_loader(trainer: Trainer, dataloader_idx: int) -> str:
    """Returns the name of the split behind a test loader; "test", "test1", ... without a data module.

    Example:
        >>> split_of_loader(Trainer(logger=False), 1)
        'test1'
    """
    names = test_splits(trainer)
    return names[dataloader_idx] if dataloader_idx < len(names) else f"test{dataloader_idx}"


def first_examples(trainer: Trainer, batch: Batch, split: str, num_examples: int | None) -> Tensor:
    """Returns [B] bool: whether an example is one of the first `num_examples` (None: all) that its split loads.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> batch = Batch(TextInputs.of_ids([[5], [6], [7]]), torch.zeros(3))
        >>> first_examples(Trainer(logger=False), batch, "test", 2).tolist()
        [True, True, False]
    """
    if num_examples is None:
        return torch.ones_like(batch.index, dtype=torch.bool)
    last = num_examples - 1
    if hasattr(data_of(trainer), "split"):
        loaded = data_of(trainer).split(split).index  # ascending, with gaps where the data was subsampled
        last = int(loaded[min(num_examples, len(loaded)) - 1])
    return batch.index <= last
