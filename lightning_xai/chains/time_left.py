"""Estimates the remaining time of a chain from the times of its finished stages."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from lightning_xai.runs.folder import RunFolder

ERASURE_PASS = "erasure_pass"  # key in the manifest; its value tells how long the run took to choose tokens to erase


@dataclass(frozen=True)
class StageTime:
    """The measured times of one stage, and its remaining work.

    After its test, a stage may score the tokens of all examples, to choose the tokens that later stages erase. This is
    the erasure pass.

    Attributes:
        group: name of a group of stages that train on about equally many tokens.
        is_done: whether the stage is finished.
        training: seconds of training so far; if the training was killed, up to its last finished epoch.
        is_trained: whether the training has ended.
        testing: seconds of the last test, without the erasure pass; None if there was no test.
        scores_with: methods that score tokens in the erasure pass.
        scoring: method -> measured seconds in the erasure pass; empty before the erasure pass.

    Example:
        >>> StageTime("gradient", is_done=False).testing is None
        True
    """

    group: str
    is_done: bool
    training: float = 0.0
    is_trained: bool = False
    testing: float | None = None
    scores_with: Sequence[str] = ()
    scoring: Mapping[str, float] = field(default_factory=dict)


def stage_time(manifest: Mapping[str, Any], group: str, *, is_done: bool, scores_with: Sequence[str]) -> StageTime:
    """Returns the times of a stage, read from the manifest of its run.

    Example:
        >>> facts = {"status": "finished", "seconds": 60, "training_seconds": 40, "erasure_pass": {"seconds": 15}}
        >>> time = stage_time(facts, "root", is_done=True, scores_with=[])
        >>> time.training, time.testing
        (40, 5)
    """
    erasure_pass, total = manifest.get(ERASURE_PASS, {}), manifest.get("seconds")
    training = manifest.get("training_seconds", total or 0.0)  # older manifests have only the total
    testing = None if total is None else max(0.0, total - training - erasure_pass.get("seconds", 0.0))
    is_trained = is_done or manifest.get("trained", manifest["status"] == "finished")
    return StageTime(group, is_done, training, is_trained, testing, scores_with, erasure_pass.get("methods", {}))


class ScoringClock:
    """Measures the seconds of an erasure pass, which scores the tokens of all examples: in total, and for each method.

    Attributes:
        num_examples: number of examples that this process has scored so far. Examples that were scored before an
            interruption do not count.

    Example:
        >>> clock = ScoringClock()
        >>> with clock.timed("gradient"):
        ...     pass
        >>> list(clock.seconds)
        ['gradient']
    """

    def __init__(self) -> None:
        self.num_examples = 0
        self.seconds: dict[str, float] = {}  # method -> seconds
        self._began = time.monotonic()

    @property
    def seconds_since_start(self) -> float:
        return time.monotonic() - self._began

    @contextmanager
    def timed(self, method: str) -> Iterator[None]:
        """Measures the seconds of a `with` block, and adds them to the seconds of a method."""
        began = time.monotonic()
        yield
        self.seconds[method] = self.seconds.get(method, 0.0) + time.monotonic() - began

    def record(self, run: RunFolder, *, num_examples: float) -> None:
        """Writes the seconds of the erasure pass, which scores the tokens of all examples, to a run's manifest.

        Args:
            run: the run that made the erasure pass.
            num_examples: number of examples that this process scores in an uninterrupted pass. The methods' seconds are
                scaled to this number.
        """
        methods = run.manifest.get(ERASURE_PASS, {}).get("methods", {})
        if self.num_examples:  # 0 if an earlier command had already scored all examples
            factor = num_examples / self.num_examples
            methods = {method: round(seconds * factor, 3) for method, seconds in self.seconds.items()}
        run.write_manifest(**{ERASURE_PASS: {"seconds": round(self.seconds_since_start, 3), "methods": methods}})


def seconds_left(stages: Sequence[StageTime]) -> float | None:
    """Returns the estimated seconds that all unfinished stages will take, or None if no stage is finished.

    The estimate for a stage is the median time of the finished stages in its group, or in all groups if its group has
    no finished stage. The erasure pass, in which methods score the tokens of all examples, is estimated separately for
    each method, because methods differ in cost by orders of magnitude, and cheap methods may come first. If a training
    was killed, its seconds so far are subtracted.

    Example:
        >>> root = StageTime("root", True, 60.0, True, 5.0, scoring={"slow": 300.0})
        >>> seconds_left([root, StageTime("slow", False, scores_with=["slow"]), StageTime("slow", False, 50.0)])
        380.0
    """
    done = [stage for stage in stages if stage.is_done and stage.testing is not None]
    if not done:
        return None
    scoring: dict[str, list[float]] = {}
    for stage in stages:
        for method, seconds in stage.scoring.items():
            scoring.setdefault(method, []).append(seconds)
    left = 0.0
    for stage in stages:
        if stage.is_done:
            continue
        alike = [other for other in done if other.group == stage.group] or done
        training = 0.0 if stage.is_trained else max(0.0, median(one.training for one in alike) - stage.training)
        left += training + median(one.testing or 0.0 for one in alike)
        left += sum(median(scoring[method]) for method in stage.scores_with if method in scoring)
    return left
