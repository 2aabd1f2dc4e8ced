"""Writes chosen validation metrics of a fit to a file, from which a hyperparameter search reads the best values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lightning import Callback, LightningModule, Trainer

from lightning_xai.runs.files.whole_files import read_json, write_json
from lightning_xai.runs.format import with_format
from lightning_xai.runs.ranks import is_first

STEPS = "steps"


class Pruned(Exception):
    """Raised to end a fit whose validation metric is much worse than in other fits of the search."""


def best_value(file: Path, tag: str, mode: str) -> float:
    """Returns the best value of a metric in a fit; NaN if no value is finite.

    Args:
        file: a file that ValidationValues wrote.
        tag: name of the metric.
        mode: "max" if larger values are better, "min" if smaller values are better.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "validations.json")
        >>> write_json(file, with_format({STEPS: {"5": {"val/map": 0.5}, "9": {"val/map": 0.25}}}))
        >>> best_value(file, "val/map", "max"), best_value(file, "val/map", "min")
        (0.5, 0.25)
    """
    return (max if mode == "max" else min)(values_by_step(file, tag).values(), default=math.nan)


def values_by_step(file: Path, tag: str) -> dict[int, float]:
    """Returns the finite values of a metric in the validations of a fit: optimizer step -> value.

    Args:
        file: a file written by ValidationValues. If the file is missing, the result is empty.
        tag: name of the metric.

    Example:
        >>> values_by_step(Path("no/such/file"), "val/map")
        {}
    """
    steps = read_json(file)[STEPS] if file.exists() else {}
    by_step = {int(step): values[tag] for step, values in steps.items()}
    return {step: by_step[step] for step in sorted(by_step) if by_step[step] is not None}


class ValidationValues(Callback):
    """After every validation of a fit, writes chosen metrics to a file, together with the optimizer step.

    If a killed fit is resumed and repeats a validation, the new values replace the old values.

    Args:
        file: the file to write.
        tags: names of the metrics, such as "val/log_loss".
        is_worse: function that gets the value of the first metric in `tags` and the optimizer step, and returns whether
            the fit should end.

    Raises:
        ValueError: a metric in `tags` was not logged in a validation.
        Pruned: `is_worse` returned True for the current step.

    Example:
        >>> ValidationValues(Path("validations.json"), ["val/log_loss"]).tags
        ['val/log_loss']
    """

    def __init__(self, file: Path, tags: Sequence[str], is_worse: Callable[[float, int], bool] | None = None) -> None:
        self.file = file
        self.tags = list(tags)
        self.is_worse = is_worse
        self._judged: set[int] = set()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        logged = trainer.callback_metrics
        for tag in self.tags:
            if tag not in logged:
                raise ValueError(f"{tag} is never logged in validation: choose one of {', '.join(sorted(logged))}")
        step = trainer.global_step
        values = {tag: float(logged[tag]) for tag in self.tags}
        steps: dict[str, Any] = read_json(self.file)[STEPS] if self.file.exists() else {}
        steps[str(step)] = {tag: value if math.isfinite(value) else None for tag, value in values.items()}
        if is_first():
            write_json(self.file, with_format({STEPS: steps}))
        if self.is_worse is None:
            return
        # after a resume, `is_worse` also gets the values of earlier validations, because Optuna may count the resumed
        # fit as a new trial that has no values yet
        earlier = sorted(number for number in map(int, steps) if number <= step and number not in self._judged)
        for number in earlier:
            self._judged.add(number)
            value = steps[str(number)][self.tags[0]]
            if value is not None and self.is_worse(value, number) and number == step:
                raise Pruned
