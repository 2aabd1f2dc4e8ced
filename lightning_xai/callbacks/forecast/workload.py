"""Estimates the remaining time of explaining and measuring examples."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from lightning import Trainer

from lightning_xai.callbacks.base import data_of, only_tunes, receivers_after
from lightning_xai.callbacks.forecast.shown_status import show_status
from lightning_xai.functional.erasure.encoded_segments import ErasesUnits, new_segments
from lightning_xai.runs.pace import time_left

BACKWARD = 2.0  # a backward pass takes about as long as two forward passes
SMALLEST = 0.01  # a method or metric without passes counts as this many forward passes


class Workload:
    """Counts the remaining work of an evaluation, and estimates how long it will take.

    An evaluation consists of parts: each method is a part, and so is each metric of a preset. Work is the number of
    tokens times the forward passes over each token. The time that a part needs is estimated from its speed so far.
    Parts that have not run yet are assumed to have the average speed of the others.

    Args:
        num_examples: split -> number of examples that this process explains.
        num_tokens: split -> number of tokens in these examples.
        passes: split -> name of a part -> number of forward passes over each token.
        segments: name of a part -> mean number of segments that are encoded for an erased version of a text. Given
            only for networks that cut texts into segments, and that encode a segment only once even if several versions
            contain it.
        segments_of_text: number of segments in a text of mean length.

    Example:
        >>> workload = Workload({"test": 4}, {"test": 40}, {"test": {"gradient": 3.0, "random": 0.0}})
        >>> workload.seconds_left() is None, round(workload.seconds_left(seconds_per_token=0.5))
        (True, 60)
        >>> workload.finish("test", "gradient", num_tokens=20, seconds=6.0)
        >>> round(workload.seconds_left())  # `gradient` has half of its tokens left
        6
    """

    def __init__(
        self,
        num_examples: Mapping[str, int],
        num_tokens: Mapping[str, float],
        passes: Mapping[str, dict[str, float]],
        segments: Mapping[str, float] | None = None,
        segments_of_text: int = 1,
    ) -> None:
        self.num_examples = dict(num_examples)
        self.segments, self.segments_of_text = dict(segments or {}), segments_of_text
        self.passes = {split: {p: max(n, SMALLEST) for p, n in parts.items()} for split, parts in passes.items()}
        self._left = {(split, part): float(num_tokens[split]) for split in self.passes for part in self.passes[split]}
        self._measured: dict[str, tuple[float, float]] = {}  # name of a part -> (its seconds, its finished work)

    def finish(self, split: str, part: str, num_tokens: float, seconds: float) -> None:
        """Records that a method or metric, the `part`, took `seconds` for the next `num_tokens` tokens of a split."""
        if (split, part) not in self._left:
            return
        self._left[split, part] = max(0.0, self._left[split, part] - num_tokens)
        before = self._measured.get(part, (0.0, 0.0))
        self._measured[part] = (before[0] + seconds, before[1] + num_tokens * self.passes[split][part])

    def seconds_left(self, seconds_per_token: float | None = None) -> float | None:
        """Returns the estimated seconds of the remaining work; None if nothing has run yet and no speed is given.

        Args:
            seconds_per_token: time of a forward pass over one token, assumed for methods and metrics that have not run.
        """
        seconds, work = (sum(values) for values in zip((0.0, 0.0), *self._measured.values(), strict=True))
        overall = seconds_per_token if seconds_per_token is not None else seconds / work if work else None
        if overall is None:
            return None
        left = 0.0
        for (split, part), tokens in self._left.items():
            measured = self._measured.get(part)
            speed = measured[0] / measured[1] if measured and measured[1] else overall
            left += tokens * self.passes[split][part] * speed
        return left


def workload_of(trainer: Trainer, source: Any, splits: list[str], network: Any = None) -> Workload | None:
    """Returns the Workload of an AttributionSource's methods, and of the metrics that measure its attributions.

    Returns None if the data are not in a TextDataModule, or if the trainer's limits leave no example.

    Args:
        trainer: the trainer.
        source: the AttributionSource, such as ComputeAttributions.
        splits: the splits that the source explains. In a test, a split may be used only to tune thresholds.
        network: the explained network. Fewer passes are counted if it cuts texts into segments, and encodes a segment
            only once even if several erased versions of a text contain it.
    """
    data = data_of(trainer)
    if not hasattr(data, "split"):
        return None
    num_examples, num_tokens, passes = {}, {}, {}
    segments: dict[str, float] = {}
    segments_of_text = 1
    presets = [r for r in receivers_after(trainer, source) if hasattr(r, "preset") and hasattr(r, "metrics")]
    presets = [] if trainer.predicting else presets  # `predict` computes no metrics
    for split in splits:
        rows = data.split(split)
        lengths, shares = rows.lengths[_explained_rows(trainer, source, split)], trainer.world_size
        if not len(lengths):
            continue
        num_examples[split] = -(-len(lengths) // shares)
        num_tokens[split] = float(lengths.sum()) / shares
        mean, targets = max(1, round(float(lengths.mean()))), _mean_targets(source, rows, data.num_classes)
        parts = {}
        length = getattr(network, "segment_length", None) if hasattr(network, "version_logits") else None
        segments_of_text = 1 if length is None else -(-mean // length)
        for name, method in source.methods.items():
            forward, backward = method.passes(mean, max(1, round(targets)))
            new = None if length is None else _new_segments(method, mean, length)
            if new is not None:
                segments[name] = new
                # the text costs one pass; an erased version costs only the part of a pass that encodes its new segments
                forward = min(forward, 1 + forward * new / segments_of_text)
            parts[name] = forward + BACKWARD * backward
        for preset in presets:
            share = min(1.0, _limit(preset, len(lengths)) / len(lengths))
            for metric in preset.metrics:
                tunes = not trainer.validating and only_tunes(trainer, split)
                if metric.needs_tuning or not tunes:
                    name = f"{preset.preset}/{metric.name}"
                    count = metric.passes(mean, len(source.methods)) * targets
                    new = None if length is None else _new_segments(metric, mean, length)
                    if new is not None:
                        segments[name] = new
                        count = min(count, len(source.methods) + count * new / segments_of_text)
                    parts[name] = count * share
        passes[split] = parts
    return Workload(num_examples, num_tokens, passes, segments, segments_of_text) if num_examples else None


def _new_segments(part: Any, num_units: int, segment_length: int) -> float | None:
    """Returns how many segments the network must encode, on average, for one text with erased units.

    A segment that was already encoded for another version of the text does not count. Returns None if `part`, a method
    or metric, erases no units.
    """
    while not isinstance(part, ErasesUnits) and hasattr(part, "method"):
        part = part.method  # `part` wraps another method, as Transformed does
    if not isinstance(part, ErasesUnits):
        return None
    return new_segments(part.erased_units(num_units), segment_length=segment_length, erasure=part.erasure)


def _limit(callback: Any, num_examples: int) -> int:
    limit = getattr(callback, "max_examples", None)
    return num_examples if limit is None else min(limit, num_examples)


def _explained_rows(trainer: Trainer, source: Any, split: str) -> np.ndarray:
    """Returns the row numbers of the examples that will be explained.

    These are the first `max_examples` examples of the split. If the trainer limits the number of batches, the examples
    in left-out batches are not explained. They can be any examples, because batches are sorted by length.
    """
    data: Any = data_of(trainer)
    first = np.arange(_limit(source, len(data.split(split))))
    limit: int | float = trainer.limit_test_batches  # also in a fit, whose forecast is for the test that follows
    if trainer.validating:
        limit = trainer.limit_val_batches
    elif trainer.predicting:
        limit = trainer.limit_predict_batches
    if (isinstance(limit, float) and limit == 1.0) or not hasattr(data, "sampler"):
        return first  # no batch is left out, or it is unknown which (a user's data module may use any order)
    batches = data.sampler(split, shuffle=False).batches()
    share = -(-len(batches) // trainer.world_size)  # batches of one process
    left = (limit if isinstance(limit, int) else int(share * limit)) * trainer.world_size
    rows = [row for batch in batches[:left] for row in batch]
    return np.intersect1d(first, np.array(rows, dtype=np.int64))


def _mean_targets(source: Any, rows: Any, num_classes: int) -> float:
    """Estimates the mean number of explained classes per example.

    If the number depends on the example, the estimate is the mean number of gold classes of the first 1000 examples. An
    example without gold classes counts as having one.
    """
    policy = getattr(source, "targets", "gold")
    if policy in ("all", "topk"):
        return float(num_classes if policy == "all" else getattr(source, "num_top", 1))
    labels = rows.labels(range(min(1000, len(rows))))
    return float(np.mean([max(1, len(row)) if isinstance(row, list) else 1 for row in labels]))


class EvaluationProgress:
    """Displays which part of an evaluation (a method or metric) processes which examples. Measures each part's time.

    Args:
        trainer: the trainer, whose progress bar is used for the display.
        workload: the work of the whole evaluation, from which the remaining time is estimated; None if unknown.

    Example:
        >>> progress = EvaluationProgress(Trainer(logger=False, accelerator="cpu", enable_progress_bar=False), None)
        >>> progress.begin_batch("test", num_examples=2, num_tokens=9)
        >>> with progress.part("random", "random (method 1 of 1) explains"):
        ...     print(progress.line("random explains"))
        test: random explains examples 1-2
    """

    def __init__(self, trainer: Trainer, workload: Workload | None) -> None:
        self.trainer, self.workload = trainer, workload
        self.seconds: dict[str, float] = {}  # split -> seconds that all methods and metrics have taken
        self.done: dict[str, int] = {}  # split -> number of finished examples
        self._split, self._num_examples, self._num_tokens = "", 0, 0.0

    def begin_batch(self, split: str, *, num_examples: int, num_tokens: float) -> None:
        self._split, self._num_tokens = split, num_tokens
        self._num_examples = num_examples

    def end_batch(self) -> None:
        self.done[self._split] = self.done.get(self._split, 0) + self._num_examples

    @contextmanager
    def part(self, name: str, text: str, share: float = 1.0) -> Iterator[None]:
        """Displays `text` and measures the time of the `with` block, as a step of the method or metric `name`.

        A method or metric may need several steps for one batch. `share` (0 to 1) is the fraction of its work on the
        batch that this step does.
        """
        show_status(self.trainer, lambda: self.line(text))
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        self.seconds[self._split] = self.seconds.get(self._split, 0.0) + seconds
        if self.workload is not None:
            self.workload.finish(self._split, name, self._num_tokens * share, seconds)

    def line(self, text: str) -> str:
        """Returns a line such as "test: gradient explains examples 1-32 of 40, about 2 min left"."""
        before = self.done.get(self._split, 0)
        total = "" if self.workload is None else f" of {self.workload.num_examples[self._split]:,}"
        examples = f"examples {before + 1:,}-{before + self._num_examples:,}{total}"
        left = None if self.workload is None else self.workload.seconds_left()
        return f"{self._split}: {text} {examples}{time_left(left)}"


@contextmanager
def timed_part(source: Any, name: str, text: str, share: float) -> Iterator[None]:
    """Runs the `with` block in `source.progress.part`, which displays `text` and measures the time of the block.

    If `source`, a callback that computes attributions, has no `progress`, nothing is displayed or measured. For `name`,
    `text` and `share`, see `EvaluationProgress.part`.

    Example:
        >>> with timed_part(object(), "eraser/iou", "eraser/iou measures random on", 1.0):
        ...     pass
    """
    progress: EvaluationProgress | None = getattr(source, "progress", None)
    with nullcontext() if progress is None else progress.part(name, text, share):
        yield
