"""The interface between the callback that computes attributions and the callbacks that use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast, runtime_checkable

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.callbacks.cost import Cost
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.models.base import Classifier
from lightning_xai.runs.splits import VALIDATION
from lightning_xai.types import Attribution, Batch


@dataclass(frozen=True)
class ExplainedBatch:
    """The explained examples of a batch, and their attributions.

    Attributes:
        batch: the explained examples, at least one.
        attributions: name of the method -> attributions of the examples in `batch`.
        predict: function that returns the network's probabilities. For `batch.inputs`, they are computed only once.
        split: name of the split.
        magnitudes: names of the methods whose scores have no sign, and so are never negative.

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
    magnitudes: frozenset[str] = frozenset()

    def __getitem__(self, rows: Any) -> ExplainedBatch:
        """Returns the examples that `rows` (a slice, a list, or a boolean or long tensor) selects."""
        batch = self.batch[rows]
        attributions = {name: attribution[rows] for name, attribution in self.attributions.items()}
        return replace(self, batch=batch, attributions=attributions, predict=self.predict.for_inputs(batch.inputs))


@runtime_checkable
class AttributionSource(Protocol):
    """A callback that computes attributions, such as ComputeAttributions.

    Attributes:
        methods: name in tables -> attribution method.
        costs: name of a method -> its passes, seconds and memory. At the end of an evaluation, they are merged over all
            processes.
        during_fit: whether attributions are also computed during the validations of a fit.

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
    """A callback that receives every explained batch from the nearest AttributionSource before it.

    If `needs_validation_in_test` is true for any receiver, a test also explains the validation split for all receivers.

    Example:
        >>> class LargestScore(Callback):
        ...     def on_explained(self, explained):
        ...         print({name: float(a.scores.max()) for name, a in explained.attributions.items()})
        >>> isinstance(LargestScore(), ExplainedReceiver)
        True
    """

    def on_explained(self, explained: ExplainedBatch) -> None:
        """Uses one explained batch. The source calls this method after it has computed the batch's attributions."""


class ExplainedCallback(Callback, ABC):
    """Base class of callbacks that use attributions.

    A callback of another class receives attributions, too, if it defines `on_explained`.

    `setup` sets the attributes `trainer`, `module` (the objective), `source` (the nearest ComputeAttributions before
    this callback) and `active` (whether this callback runs in the current stage).

    Args:
        during_fit: whether to also run during the validations of a fit. False by default, because attributions cost
            more than the training itself.

    Raises:
        ValueError: at setup, if no ComputeAttributions precedes this callback, or if `during_fit` is True here but
            False in the nearest ComputeAttributions before it.

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
                f"{self.label} sets during_fit, but the ComputeAttributions before it does not: set during_fit for "
                "both or for neither"
            )

    @abstractmethod
    def on_explained(self, explained: ExplainedBatch) -> None:
        """Uses one explained batch. Must do nothing if `active` is False: `source` may call this method even then."""


def source_before(trainer: Trainer, callback: Callback, label: str) -> AttributionSource:
    """Returns the AttributionSource from which `callback` receives attributions: the nearest one before it.

    Raises:
        ValueError: no AttributionSource precedes `callback`. The message calls the callback by the name `label`.

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
    """Returns all ExplainedReceivers between `source` and the next AttributionSource.

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
    """Returns `trainer.callbacks`, an attribute that type checkers do not know because Lightning declares no type.

    Example:
        >>> type(callbacks_of(Trainer(callbacks=[Callback()], logger=False))[0]).__name__
        'Callback'
    """
    return getattr(trainer, "callbacks", [])


def data_of(trainer: Trainer) -> Any:
    """Returns the trainer's data module, or None if the trainer was given data loaders instead.

    Example:
        >>> data_of(Trainer(logger=False)) is None
        True
    """
    return getattr(trainer, "datamodule", None)


def is_dry_run(trainer: Trainer) -> bool:
    """Returns whether the trainer is in fast_dev_run mode: it runs a few batches to find errors, and writes no files.

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
    """Returns the probability above which a class counts as predicted on multi-label data.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> decision_threshold_of(Supervised(random_bert()))
        0.5
    """
    return float(cast(Tensor, module.decision_threshold))


def test_splits(trainer: Trainer) -> list[str]:
    """Returns the names of the splits that a test evaluates, in the order of the test loaders.

    Example:
        >>> test_splits(Trainer(logger=False))
        ['test']
    """
    return getattr(data_of(trainer), "test_splits", None) or ["test"]


def only_tunes(trainer: Trainer, split: str) -> bool:
    """Returns whether a test uses a split only to tune thresholds, and measures no explanations on it.

    This is the validation split, unless `extra_test_splits` of the data names it.

    Example:
        >>> only_tunes(Trainer(logger=False), "validation"), only_tunes(Trainer(logger=False), "test")
        (True, False)
    """
    return split == VALIDATION and VALIDATION not in (getattr(data_of(trainer), "extra_test_splits", None) or ())


def split_of_loader(trainer: Trainer, dataloader_idx: int) -> str:
    """Returns the name of the split that a test loader loads; "test1" or the like if the data module does not name it.

    Example:
        >>> split_of_loader(Trainer(logger=False), 1)
        'test1'
    """
    names = test_splits(trainer)
    return names[dataloader_idx] if dataloader_idx < len(names) else f"test{dataloader_idx}"


def are_first_examples(trainer: Trainer, batch: Batch, split: str, num_examples: int | None) -> Tensor:
    """Returns bool [B]: whether each example is among the first `num_examples` of `split`. None means all examples.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> batch = Batch(TextInputs.of_ids([[5], [6], [7]]), torch.zeros(3))
        >>> are_first_examples(Trainer(logger=False), batch, "test", 2).tolist()
        [True, True, False]
    """
    if num_examples is None:
        return torch.ones_like(batch.index, dtype=torch.bool)
    if hasattr(data_of(trainer), "split"):
        loaded = data_of(trainer).split(split).index  # ascending indices; some are missing if the data are subsampled
        return batch.index <= int(loaded[min(num_examples, len(loaded)) - 1])
    return batch.index < num_examples
