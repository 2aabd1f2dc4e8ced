"""The cost of an attribution method: passes through the network, seconds and memory."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch

# MiB by which a peak that was just reset may exceed current memory: the kernel updates its counts with a delay
_RESET_SLACK = 4.0


class CostPerExample(TypedDict):
    """Mean passes and seconds per example, and the largest growth of memory in MiB; NaN for unknown values."""

    forward_passes: float
    backward_passes: float
    seconds: float
    peak_memory_mb: float


NO_COST = CostPerExample(forward_passes=math.nan, backward_passes=math.nan, seconds=math.nan, peak_memory_mb=math.nan)


@dataclass
class Cost:
    """Passes and seconds of a method, summed over all explained examples, and the peak memory of the method.

    Example:
        >>> cost = Cost()
        >>> cost.add(1, forward=4, backward=2, seconds=0.5, peak_memory_mb=10)
        >>> cost.add(3, forward=0, backward=2, seconds=1.5, peak_memory_mb=7)
        >>> list(cost.per_example().values())
        [1.0, 1.0, 0.5, 10.0]
    """

    num_examples: int = 0
    forward_passes: float = 0.0
    backward_passes: float = 0.0
    seconds: float = 0.0
    peak_memory_mb: float = math.nan  # the largest growth during one batch; other fields are sums

    def add(self, num_examples: int, forward: float, backward: float, seconds: float, peak_memory_mb: float) -> None:
        """Adds the cost of a batch of `num_examples`."""
        self.num_examples += num_examples
        self.forward_passes += forward
        self.backward_passes += backward
        self.seconds += seconds
        self.peak_memory_mb = float(np.fmax(peak_memory_mb, self.peak_memory_mb))  # fmax ignores NaN

    def per_example(self) -> CostPerExample:
        """Returns the mean passes and seconds per example, and the largest growth of memory in MiB."""
        count = max(self.num_examples, 1)
        return CostPerExample(
            forward_passes=self.forward_passes / count,
            backward_passes=self.backward_passes / count,
            seconds=self.seconds / count,
            peak_memory_mb=self.peak_memory_mb,
        )


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
    """Starts to watch memory; the returned function gives the largest growth since then in MiB, or NaN if unknown.

    On a GPU, the memory of tensors is watched; on a CPU, the memory of the whole process. A process keeps freed memory
    for later use. If a method reuses kept memory, the growth is smaller than the memory that the method needs.

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
    if not peak - resident < _RESET_SLACK:  # the reset had no effect: the peak may be older than this method's run
        return lambda: math.nan
    return lambda: max(resident_memory()[1] - resident, 0.0)
