"""The cost of an attribution method: passes through the network, seconds and memory."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
import torch

from lightning_xai.functional.erasure.segment_counts import SegmentCounts
from lightning_xai.types import Passes

# just after a reset, the peak may exceed the current memory by this many MiB, because the Linux kernel updates its
# memory counters with a delay
_RESET_SLACK = 4.0
FEW_PASSES = 16
PASS_GROUPS = ("1 + K", f"up to {FEW_PASSES}", "up to N", "more")  # limits on passes, for K classes and N tokens


def pass_group(forward: float, backward: float, num_targets: float, num_tokens: float) -> str:
    """Returns the first of PASS_GROUPS whose limit is at least the sum of a method's forward and backward passes.

    Args:
        forward: mean number of forward passes per example.
        backward: mean number of backward passes per example.
        num_targets: mean number K of explained classes per example.
        num_tokens: mean number N of explainable tokens per example.

    Example:
        >>> pass_group(2, 0, 1, 30), pass_group(2, 1, 1, 30), pass_group(25, 0, 1, 30), pass_group(50, 50, 1, 30)
        ('1 + K', 'up to 16', 'up to N', 'more')
    """
    limits = (1 + num_targets, FEW_PASSES, num_tokens, math.inf)
    slack = 1e-9  # allows for rounding errors in the means
    return next(group for group, limit in zip(PASS_GROUPS, limits, strict=True) if forward + backward <= limit + slack)


class CostPerExample(TypedDict):
    """A method's mean passes and seconds per example, and its largest growth in memory in MiB. NaN means unknown.

    Some networks cut texts into segments, and encode a segment only once even if several erased versions of a text
    contain it. If a method evaluates erased versions with such a network, there are two more values: the mean number of
    segments in an erased version, and the mean number of segments that are encoded for it.
    """

    forward_passes: float
    backward_passes: float
    seconds: float
    peak_memory_mb: float
    version_segments: NotRequired[float]
    encoded_segments: NotRequired[float]
    pass_group: NotRequired[str]  # entry of PASS_GROUPS for the method's number of passes; "" if unknown


class MetricSegments(TypedDict, total=False):
    """Means over the erased texts that a metric evaluates: segments per text, and encoded segments per text.

    A segment that several erased versions of a text contain is encoded only once.
    """

    metric_version_segments: float
    metric_encoded_segments: float


NO_COST = CostPerExample(forward_passes=math.nan, backward_passes=math.nan, seconds=math.nan, peak_memory_mb=math.nan)


class Cost:
    """The cost of one method on each split: passes and seconds of every distinct example, and the peak memory.

    Example:
        >>> cost = Cost()
        >>> cost.add("test", [7], [Passes(4, 2)], seconds=0.5, peak_memory_mb=10)
        >>> cost.add("test", [8, 9, 7], [Passes(0, 2), Passes(2, 2), Passes(4, 2)], seconds=1.5, peak_memory_mb=7)
        >>> cost.num_examples("test"), list(cost.per_example("test").values())  # index 7 counts once
        (3, [2.0, 2.0, 0.5, 10.0])
    """

    def __init__(self) -> None:
        # split -> one array [B, 6] per batch; columns: index of the example, forward passes, backward passes, seconds,
        # number of explained classes, number of explainable tokens
        self._rows: dict[str, list[np.ndarray]] = {}
        self._peaks: dict[str, float] = {}  # split -> largest growth in memory during one batch
        self._segments: dict[str, SegmentCounts] = {}  # split -> counts of segments in texts with erased tokens

    def add(
        self,
        split: str,
        index: Sequence[int],
        passes: Sequence[Passes],
        seconds: float,
        peak_memory_mb: float,
        *,
        num_targets: Sequence[float] | None = None,
        num_tokens: Sequence[float] | None = None,
        segments: SegmentCounts | None = None,
    ) -> None:
        """Adds the cost of a batch of B examples. The seconds are divided equally among the examples.

        Args:
            split: the split of the batch.
            index: index of each example in the split (B entries).
            passes: how many forward and backward passes each example needs (B entries).
            seconds: time that this process needed for the batch.
            peak_memory_mb: largest growth in memory during the batch; NaN if unknown.
            num_targets: number of explained classes of each example (B entries); None if unknown.
            num_tokens: number of explainable tokens of each example (B entries); None if unknown.
            segments: counts of the segments encoded for erased versions of the examples; None if not counted.
        """
        targets, tokens = (counts or [math.nan] * len(index) for counts in (num_targets, num_tokens))
        rows = [
            (i, p.forward, p.backward, seconds / len(index), k, n)
            for i, p, k, n in zip(index, passes, targets, tokens, strict=True)
        ]
        self._rows.setdefault(split, []).append(np.array(rows, dtype=np.float64).reshape(-1, 6))
        self._peaks[split] = float(np.fmax(peak_memory_mb, self._peaks.get(split, math.nan)))  # fmax ignores NaN
        if segments is not None:
            self._segments.setdefault(split, SegmentCounts()).merge(segments)

    @classmethod
    def total(cls, costs: Iterable[Cost]) -> Cost:
        """Merges the costs of all processes. An example that several processes explained counts once.

        Example:
            >>> first, second = Cost(), Cost()
            >>> first.add("test", [0, 2], [Passes(1, 0), Passes(3, 0)], seconds=1, peak_memory_mb=1)
            >>> second.add("test", [1, 0], [Passes(2, 0), Passes(1, 0)], seconds=2, peak_memory_mb=2)
            >>> list(Cost.total([first, second]).per_example("test").values())
            [2.0, 0.0, 0.6666666666666666, 2.0]
        """
        total = cls()
        for cost in costs:
            for split, parts in cost._rows.items():
                total._rows.setdefault(split, []).extend(parts)
                total._peaks[split] = float(np.fmax(cost._peaks[split], total._peaks.get(split, math.nan)))
            for split, segments in cost._segments.items():
                total._segments.setdefault(split, SegmentCounts()).merge(segments)
        return total

    def num_examples(self, split: str) -> int:
        """Returns the number of distinct examples of a split."""
        return len(self._distinct(split))

    def per_example(self, split: str) -> CostPerExample:
        """Returns the mean passes and seconds over the distinct examples of a split, and the largest growth in memory.

        Examples are summed in the order of their indices, so rounding depends neither on the batches nor on the number
        of processes.
        """
        rows = self._distinct(split)
        forward, backward, seconds = (rows[:, 1:4].sum(axis=0) / max(len(rows), 1)).tolist()
        cost = CostPerExample(
            forward_passes=forward,
            backward_passes=backward,
            seconds=seconds,
            peak_memory_mb=self._peaks.get(split, math.nan),
        )
        segments = self._segments.get(split, SegmentCounts()).sum()
        if segments.num_versions:
            cost["version_segments"], cost["encoded_segments"] = segments.per_version
        return cost

    def group(self, split: str) -> str:
        """Returns the entry of PASS_GROUPS for the method's mean number of passes on a split.

        Returns "" if the split has no examples, or if an example's number of explained classes or tokens is unknown.
        """
        rows = self._distinct(split)
        if not len(rows) or np.isnan(rows[:, 4:]).any():
            return ""
        forward, backward, _, num_targets, num_tokens = rows[:, 1:].mean(axis=0).tolist()
        return pass_group(forward, backward, num_targets, num_tokens)

    def _distinct(self, split: str) -> np.ndarray:
        """Returns [n, 6]: one row for each of the n distinct examples, sorted by index, with the columns of `_rows`."""
        rows = np.concatenate([np.zeros((0, 6)), *self._rows.get(split, [])])
        return rows[np.unique(rows[:, 0], return_index=True)[1]]


def resident_memory() -> tuple[float, float]:
    """Returns this process's current memory and its peak memory since the last reset, in MiB; NaN outside Linux.

    Example:
        >>> now, peak = resident_memory()
        >>> now > peak + 4  # also False where both are NaN
        False
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # not Linux
        return math.nan, math.nan
    sizes = {
        name: float(size) / 1024 for name, size in re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", status, re.MULTILINE)
    }
    return sizes.get("VmRSS", math.nan), sizes.get("VmHWM", math.nan)


def start_peak_memory(device: torch.device) -> Callable[[], float]:
    """Starts to measure memory. Returns a function that returns the largest growth so far, in MiB; NaN if unknown.

    On a GPU, the memory of tensors is measured; on a CPU, the memory of the whole process. A process keeps freed memory
    for later use. If a method reuses such memory, it needs more memory than the growth shows.

    Example:
        >>> start_peak_memory(torch.device("meta"))()
        nan
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        allocated = torch.cuda.memory_allocated(device)
        return lambda: (torch.cuda.max_memory_allocated(device) - allocated) / 2**20
    if device.type != "cpu":
        return lambda: math.nan
    try:
        Path("/proc/self/clear_refs").write_text("5")  # Linux: resets the peak to the current memory
    except OSError:  # not Linux, or a container that forbids the reset
        return lambda: math.nan
    resident, peak = resident_memory()
    if not peak - resident < _RESET_SLACK:  # the reset had no effect, so the peak may be from before the call
        return lambda: math.nan
    return lambda: max(resident_memory()[1] - resident, 0.0)
