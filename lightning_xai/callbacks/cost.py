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

_RESET_SLACK = 4.0  # MiB by which a peak just reset may exceed the memory in use, since the kernel counts in batches


class CostPerExample(TypedDict):
    """Mean passes and seconds of an example, and the largest growth of memory in MiB; NaN where it is unknown."""

    forward_passes: float
    backward_passes: float
    seconds: float
    peak_memory_mb: float


NO_COST = CostPerExample(forward_passes=math.nan, backward_passes=math.nan, seconds=math.nan, peak_memory_mb=math.nan)


@dataclass
class Cost:
    """Passes and seconds of a method, summed over the examples that it has explained, and its peak memory.

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
    peak_memory_mb: float = math.nan  # largest growth of any batch, not a sum

    def add(self, num_examples: int, forward: float, backward: float, seconds: float, peak_memory_mb: float) -> None:
        """Adds the cost of a batch of `num_examples`."""
        self.num_examples += num_examples
        self.forward_passes += forward
        self.backward_passes += backward
        self.seconds += seconds
        self.peak_memory_mb = float(np.fmax(peak_memory_mb, self.peak_memory_mb))  # fmax ignores NaN

    def per_example(self) -> CostPerExample:
        """Returns the mean passes and seconds of an example, and the largest growth of memory in MiB."""
        count = max(self.num_examples, 1)
        return CostPerExample(
            forward_passes=self.forward_passes / count,
            backward_passes=self.backward_passes / count,
            seconds=self.seconds / count,
            peak_memory_mb=self.peak_memory_mb,
        )


def resident_memory() -> tuple[float, float]:
    """Returns this process's memory now and its peak since the last reset, in MiB; NaN on systems other than Linux.

    Example:
        >>> now, peak = resident_memory()
        >>> now > peak + 4  # also False where both are NaN
        False
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # another system
        return math.nan, math.nan
    sizes = {
        name: float(size) / 1024 for name, size in re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", status, re.MULTILINE)
    }
    return sizes.get("VmRSS", math.nan), sizes.get("VmHWM", math.nan)


def start_peak_memory(device: torch.device) -> Callable[[], float]:
    """Starts to watch memory; the returned function gives its largest growth since then in MiB, or NaN if unknown.

    On a GPU it is the memory of tensors, on the CPU that of the whole process. A process keeps memory that it has
    freed, so a method that fits into such memory shows less growth than it takes.

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
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts again from the memory now
    except OSError:  # another system, or a container that forbids it
        return lambda: math.nan
    resident, peak = resident_memory()
    if not peak - resident < _RESET_SLACK:  # nothing was reset, so the peak may be that of an earlier method
        return lambda: math.nan
    return lambda: max(resident_memory()[1] - resident, 0.0)
