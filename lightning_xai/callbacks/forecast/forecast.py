"""Estimates how long training, explaining and measuring will take, before this work starts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import FSDPStrategy
from lightning.pytorch.trainer.states import TrainerFn

from lightning_xai.callbacks.base import (
    AttributionSource,
    callbacks_of,
    data_of,
    network_of,
    only_tunes,
    receivers_after,
    test_splits,
)
from lightning_xai.callbacks.forecast.training_work import TrainingWork, training_work
from lightning_xai.callbacks.forecast.workload import workload_of
from lightning_xai.functional.network.modes import evaluation_mode
from lightning_xai.functional.network.untouched import memory_returned, network_kept, random_states_kept
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.pace import duration
from lightning_xai.runs.progress import say
from lightning_xai.runs.splits import VALIDATION

MAX_TOKENS = 4096  # largest number of tokens, including padding, in the batch on which speed is measured
FEW_TOKENS = 512  # used instead of MAX_TOKENS on the CPU, if only the time of a training is estimated
SHORT = 60.0  # seconds; a training with a shorter estimate is not announced


class Forecast(Callback):
    """Before a test, a validation, or a fit with a test after it, prints how long explaining and measuring will take.

    Before a training of a minute or more, another line gives the time of the training without its validations. A
    resumed training has no such line.

    The estimate is the product of three numbers: the passes that methods and metrics (or the objective and its terms)
    declare, the tokens in the explained (or training) examples, and the measured time per token of a forward pass. The
    estimate is too low for methods whose passes take longer than a plain forward pass. It is also too low for
    trainings, because it does not count the optimizer's steps.

    Some networks cut texts into segments, and encode a segment only once even if several erased versions of a text
    contain it. For these networks, a second line gives, for each method and metric, the mean number of segments that
    are encoded for an erased version.

    Args:
        tests_after_fit: whether a test follows the fit.

    Example:
        >>> Forecast(tests_after_fit=True).tests_after_fit
        True
    """

    def __init__(self, *, tests_after_fit: bool = False) -> None:
        self.tests_after_fit = tests_after_fit
        self._is_said = False

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        measured = self._say(trainer, pl_module, "the test: ", tests=True) if self.tests_after_fit else None
        # there is no estimate for a resumed fit, because the number of its finished steps is not known yet
        resumes = getattr(trainer, "ckpt_path", None) or RunFolder(Path(trainer.default_root_dir)).checkpoint("last")
        if self._can_say(trainer) and not resumes:
            work = training_work(trainer, pl_module)
            if work is not None:
                # on a GPU, the time of a small batch is not proportional to its number of tokens
                max_tokens = FEW_TOKENS if pl_module.device.type == "cpu" else MAX_TOKENS
                measured = measured or seconds_per_token(trainer, pl_module, "train", max_tokens)
                self._say_training(work, work.seconds(measured), trainer.world_size)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._say(trainer, pl_module, "", tests=True)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == TrainerFn.VALIDATING:
            self._say(trainer, pl_module, "", tests=False)

    def _can_say(self, trainer: Trainer) -> bool:
        return hasattr(data_of(trainer), "split") and not isinstance(trainer.strategy, FSDPStrategy)

    def _say_training(self, work: TrainingWork, seconds: float, world_size: int) -> None:
        if seconds >= SHORT:
            at_most = "at most " if work.may_stop else ""
            examples = f"{at_most}{work.num_examples * world_size:,} examples"
            say(f"the training: {examples}, {duration(seconds)} without validations")

    def _say(self, trainer: Trainer, module: LightningModule, when: str, *, tests: bool) -> float | None:
        """Prints the estimates for a test or validation. Returns the seconds per token, if they were measured."""
        measured: float | None = None
        if self._is_said or not self._can_say(trainer):
            return measured
        self._is_said = True
        for source in callbacks_of(trainer):
            if isinstance(source, AttributionSource) and receivers_after(trainer, source):
                splits = _explained_splits(trainer, source) if tests else [VALIDATION]
                workload = workload_of(trainer, source, splits, network_of(module))
                if workload is None:
                    continue
                measured = measured or seconds_per_token(trainer, module, splits[0])
                seconds = workload.seconds_left(measured)
                counts = [f"{num * trainer.world_size:,} {split}" for split, num in workload.num_examples.items()]
                say(f"{when}{line_of(len(source.methods), counts)}, {duration(seconds or 0)}")
                if workload.segments_of_text > 1 and workload.segments:
                    say(line_of_segments(workload.segments, workload.segments_of_text))
        return measured


def line_of(num_methods: int, counts: Sequence[str]) -> str:
    """Returns a sentence with the number of methods, and the number of explained examples in each split.

    Example:
        >>> line_of(8, ["20 validation", "40 test", "9 tweets"])
        '8 methods explain 20 validation, 40 test and 9 tweets examples'
        >>> line_of(1, ["1 test"])
        '1 method explains 1 test example'
    """
    noun = "example" if counts[-1].startswith("1 ") else "examples"
    examples = f"{' and '.join(filter(None, [', '.join(counts[:-1]), counts[-1]]))} {noun}"
    return f"1 method explains {examples}" if num_methods == 1 else f"{num_methods} methods explain {examples}"


def line_of_segments(segments: Mapping[str, float], segments_of_text: int) -> str:
    """Returns a line about a network that cuts texts into segments: how many segments each method and metric encodes.

    The numbers are means over erased versions of texts. `segments_of_text` is the number of segments of a text.

    Example:
        >>> line_of_segments({"occlusion": 1.0, "lime": 47.0, "eraser/aopc": 1.0}, 47)
        'segments encoded for an erased version (a text has 47): 1.0 for occlusion and eraser/aopc, 47.0 for lime'
    """
    parts: dict[str, list[str]] = {}
    for name, number in segments.items():
        parts.setdefault(f"{number:.1f}", []).append(name)
    costs = [f"{number} for {' and '.join(names)}" for number, names in parts.items()]
    return f"segments encoded for an erased version (a text has {segments_of_text}): {', '.join(costs)}"


def _explained_splits(trainer: Trainer, source: Any) -> list[str]:
    """Returns the splits for which the callback `source` computes attributions in a test.

    The validation split is included only if a later callback, which receives the attributions, needs this split.
    """
    needs_validation = any(getattr(r, "needs_validation_in_test", False) for r in receivers_after(trainer, source))
    return [split for split in test_splits(trainer) if needs_validation or not only_tunes(trainer, split)]


def seconds_per_token(trainer: Trainer, module: LightningModule, split: str, max_tokens: int = MAX_TOKENS) -> float:
    """Measures and returns the seconds per token of a forward pass. Network and random states stay unchanged."""
    data, network = data_of(trainer), network_of(module)
    rows = data.split(split)
    # row numbers of texts of typical length: the shortest texts that have at least the median length
    usual = rows.lengths.argsort(kind="stable")[len(rows) // 2 :][: data.eval_batch_size]
    num_rows = max(1, max_tokens // int(rows.lengths[usual].max()))
    inputs = data.collate(rows[usual[:num_rows].tolist()]).to(module.device).inputs
    with ExitStack() as stack:
        for context in (memory_returned(module.device), random_states_kept(), network_kept(module)):
            stack.enter_context(context)
        stack.enter_context(evaluation_mode(module))
        times = []
        for _ in range(2):  # the first pass may be slower, because it loads GPU kernels
            began = time.perf_counter()
            network.predict(inputs)
            if module.device.type == "cuda":
                torch.cuda.synchronize(module.device)
            times.append(time.perf_counter() - began)
    return min(times) / float(inputs.attention_mask.sum())
