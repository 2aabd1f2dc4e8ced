"""The object with which callbacks try the parts of a run on short examples before the run (in a preflight)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from lightning import LightningModule, Trainer
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.callbacks.base import data_of, network_of
from lightning_xai.callbacks.preflight.short_texts import (
    cut_batch,
    evidence_tokens,
    short_columns,
    text_forms,
    typical_rows,
)
from lightning_xai.models.base import Classifier
from lightning_xai.types import Attribution, Batch

NUM_TOKENS = 8  # number of explainable tokens of a short text


class ResultKey(NamedTuple):
    """The preset, method and metric of a result. If a metric has several values, they share one ResultKey."""

    preset: str
    method: str
    metric: str


@dataclass(frozen=True)
class Failure:
    """A part of a run, such as a method or metric, that failed when it was tried before the run (in a preflight).

    Attributes:
        subject: description of the part.
        reason: the error and its remedy.
        results: the results that are missing if the part is left out.
        can_be_left_out: whether the run can go on without this part.

    Example:
        >>> str(Failure("method alti (ALTI)", "BiLSTM has no layers that can be decomposed"))
        'method alti (ALTI): BiLSTM has no layers that can be decomposed'
    """

    subject: str
    reason: str
    results: tuple[ResultKey, ...] = ()
    can_be_left_out: bool = False

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"


class WeightsChanged(ValueError):
    """A method changed the network's weights. Leaving out the method does not help, because the old weights are lost.

    Example:
        >>> str(WeightsChanged("the method changed the network's head.bias"))
        "the method changed the network's head.bias"
    """


class ShortRows(NamedTuple):
    """One or two examples of a split, in two forms: whole and cut short.

    Attributes:
        whole: the whole examples.
        short: the same examples, each cut to eight explainable tokens.
        keep: [B, T] bool, True at the tokens of `whole` that are also in `short`.
    """

    whole: Batch
    short: Batch
    keep: Tensor


class Scored(NamedTuple):
    """The scores that a method computed when it was tried on a few texts before the run (in a preflight).

    Attributes:
        batch: the texts (B examples).
        attribution: the method's scores.
        probs: [B, C] probabilities from which the explained classes were chosen.
    """

    batch: Batch
    attribution: Attribution
    probs: Tensor


def reason_of(error: Exception) -> str:
    """Returns an error's message as one line, or advice if the device ran out of memory.

    If the error is not a ValueError, its class and the line of code that raised it are added.

    Example:
        >>> reason_of(ValueError("size is 0: give at least 1"))
        'size is 0: give at least 1'
    """
    message = " ".join(str(error).split())
    if isinstance(error, torch.OutOfMemoryError):
        return "the device has too little memory: lower chunk_size, max_length or the batch sizes"
    if isinstance(error, ValueError):
        return message
    shown = message if len(message) < 200 else f"{message[:197]}..."
    frames = extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {shown}{place}"


def check_passes(method: AttributionMethod) -> tuple[float, float]:
    """Returns a method's numbers of forward and backward passes for a short text.

    Raises ValueError if `method.passes` does not return a pair.

    Example:
        >>> from lightning_xai.attributions.gradient import Gradient
        >>> check_passes(Gradient())
        (1, 1)
    """
    passes: object = method.passes(NUM_TOKENS, 1)
    if not isinstance(passes, tuple) or len(passes) != 2:
        name = type(method).__name__
        raise ValueError(f"{name}.passes returned {passes!r}: return Passes(forward=..., backward=...)")
    forward, backward = passes
    return forward, backward


@dataclass
class PreflightRun:
    """One preflight: callbacks try the parts of a run on short examples, before the run starts.

    The object knows which splits the run will evaluate, and records which parts have failed so far.

    Attributes:
        trainer: the trainer, after it has moved the network to its device.
        module: the objective.
        stages: stage -> the splits that it uses. A preflight of the objective has the stage "train". A preflight of
            methods and metrics has the stage "fit" (the validations of a fit), "validate", "test" or "predict", or both
            "fit" and "test" if a test follows the fit.
        failures: description of a part, such as a method or metric -> its failure.
        errors: the errors that caused the failures.
        leave_out: description of a part -> functions that leave the part out of the run.
        replays: whether the outcomes are known from an earlier preflight. If so, nothing is tried, and only `leave_out`
            is filled.
        needs_backward: whether a method that was tried needs backward passes.
        scores: Python id of a callback that computes attributions -> name of a method -> the first scores that
            the method computed.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> trainer = Trainer(logger=False, accelerator="cpu")
        >>> preflight = PreflightRun(trainer, Supervised(random_bert()), {"test": ["test"]})
        >>> preflight.attempt("part a", lambda: [0][1])
        False
        >>> print(preflight.failures["part a"].reason[:11])
        IndexError:
    """

    trainer: Trainer
    module: LightningModule
    stages: dict[str, list[str]]
    failures: dict[str, Failure] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    leave_out: dict[str, list[Callable[[], None]]] = field(default_factory=dict)
    replays: bool = False
    needs_backward: bool = False
    scores: dict[int, dict[str, Scored]] = field(default_factory=dict)
    _rows: dict[tuple[str, int | None], ShortRows] = field(default_factory=dict)

    @property
    def network(self) -> Classifier:
        """The classifier of the objective."""
        return network_of(self.module)

    @property
    def fits(self) -> bool:
        """Whether methods and metrics are tried before a fit, when the network is still untrained."""
        return "fit" in self.stages

    def stages_of(self, callback: object) -> list[str]:
        """Returns the stages, such as "test", in which a callback runs; "fit" only if its `during_fit` is True."""
        return [stage for stage in self.stages if stage != "fit" or getattr(callback, "during_fit", False)]

    def attempt(
        self,
        subject: str,
        function: Callable[[], object],
        *,
        results: Sequence[ResultKey] = (),
        leave_out: Callable[[], None] | None = None,
    ) -> bool:
        """Calls `function`. Returns True if it raises no error; otherwise records the error and returns False.

        If a part (named by `subject`) fails more than once, its first failure is kept. If `replays` is True, `function`
        is not called, and the result is True unless the earlier preflight recorded a failure of this part.

        Args:
            subject: name of the tried method, metric or other part, unique in the run.
            function: tries the part. It must not change anything outside the preflight.
            results: the results that are missing if the part is left out.
            leave_out: removes the part from the run; None if the run cannot go on without it.
        """
        if leave_out is not None:
            self.leave_out.setdefault(subject, []).append(leave_out)
        if self.replays:
            return subject not in self.failures
        try:
            function()
        except Exception as error:  # every error is caught, so that the preflight can list all failures
            without = leave_out is not None and not isinstance(error, WeightsChanged)
            failure = Failure(subject, reason_of(error), tuple(results), without)
            self.failures.setdefault(subject, failure)
            self.errors.append(error)
            return False
        return True

    def rows(self, split: str, max_examples: int | None = None) -> ShortRows:
        """Returns two of the first `max_examples` examples of a split, if possible one with and one without evidence.

        The examples are put into a batch without a data loader, and moved to the device of the network.
        """
        key = (split, max_examples)
        if key not in self._rows:
            rows = data_of(self.trainer).split(split)
            limit = len(rows) if max_examples is None else min(max_examples, len(rows))
            whole = self.examples(split, rows.index[typical_rows(rows, limit)])
            keep = short_columns(whole.inputs, evidence_tokens(whole), NUM_TOKENS) & whole.inputs.attention_mask
            self._rows[key] = ShortRows(whole, cut_batch(whole, keep, self.network.pad_id), keep)
        return self._rows[key]

    def batches(
        self, splits: Sequence[str], method: AttributionMethod | None, max_examples: int | None = None
    ) -> Iterator[tuple[str, Batch]]:
        """Yields (split, texts) for each split on which a method is tried.

        If the method runs the network, the texts are short. Then it is tried on the first split, and on another split
        only if this split has texts of a new form (see `text_forms`), such as pairs. If the method does not run the
        network, it may look up stored scores of whole texts, so the texts are whole and come from every split.

        Args:
            splits: the splits whose texts the method explains.
            method: the method; if None, the short texts of every split are yielded.
            max_examples: only the first `max_examples` examples of a split are used.
        """
        forward, backward = check_passes(method) if method is not None else (0, 0)
        self.needs_backward |= backward > 0
        known: set[tuple[int, bool, bool]] = set()
        for split in dict.fromkeys(splits):
            rows = self.rows(split, max_examples)
            forms = text_forms(rows.short.inputs)
            if not forward and not backward:
                yield split, rows.short if method is None else rows.whole
            elif not forms <= known:
                yield split, rows.short
            known |= forms

    def longest(self, splits: Sequence[str]) -> Batch:
        """Returns the example with the most tokens in the splits, as a batch."""
        data = data_of(self.trainer)
        lengths = {split: data.split(split).lengths for split in splits}
        longest = max(splits, key=lambda split: int(lengths[split].max()))
        return self.examples(longest, data.split(longest).index[[int(lengths[longest].argmax())]])

    def examples(self, split: str, index: Iterable[int]) -> Batch:
        """Returns the examples of a split with the given indices, as a batch on the device of the network."""
        data = data_of(self.trainer)
        rows = data.split(split)
        batch: Batch = data.collate(rows[[rows.position(int(number)) for number in index]])
        return batch.to(self.module.device)


@runtime_checkable
class HasPreflight(Protocol):
    """A callback with a method `on_preflight`, which tries the callback's work on a few examples before the run.

    Example:
        >>> class Evidence:
        ...     def on_preflight(self, preflight):
        ...         preflight.attempt("Evidence", lambda: preflight.rows("test").whole.rationale.scores)
        >>> isinstance(Evidence(), HasPreflight)
        True
    """

    def on_preflight(self, preflight: PreflightRun) -> None:
        """Tries, before the run, what the callback will do in the run. Each try is a call of `preflight.attempt`.

        `on_preflight` must not write files, log, or wait for other processes.
        """
        ...
