"""Explains every evaluated batch and hands the attributions to the callbacks after it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning import LightningModule, Trainer

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.callbacks.base import ExplainingCallback, among_first
from lightning_xai.functional.targets import TargetPolicy, select_targets
from lightning_xai.metrics.base import PredictOnce
from lightning_xai.types import Batch

_RESET_SLACK = 4.0  # MiB by which a peak just reset may differ from the present, as the kernel counts in batches


def resident_memory() -> tuple[float, float]:
    """Returns this process's memory now and its peak since the last reset, in MiB; NaN where Linux does not tell."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # another system
        return math.nan, math.nan
    sizes = {
        name: float(size) / 1024 for name, size in re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", status, re.MULTILINE)
    }
    return sizes.get("VmRSS", math.nan), sizes.get("VmHWM", math.nan)


def start_peak_memory(device: torch.device) -> Callable[[], float]:
    """Returns a function that tells by how many MiB memory grew at its peak since now; NaN where nothing counts it.

    On a GPU it is the memory of tensors. On the CPU it is that of the whole process, which keeps what it has freed: a
    method whose needs were covered before shows less than it takes.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        return lambda: (torch.cuda.max_memory_allocated(device) - before) / 2**20
    if device.type != "cpu":
        return lambda: math.nan
    try:
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts again from the present
    except OSError:  # another system, or a container that forbids it
        return lambda: math.nan
    before, peak = resident_memory()
    if not peak - before < _RESET_SLACK:  # nothing was reset, so the peak may be that of an earlier method
        return lambda: math.nan
    return lambda: max(resident_memory()[1] - before, 0.0)


class Cost:
    """What a method spent so far."""

    def __init__(self) -> None:
        self.num_examples = 0
        self.forward_passes = 0.0
        self.backward_passes = 0.0
        self.seconds = 0.0
        self.peak_memory_mb = float("nan")

    def add(self, num_examples: int, forward: float, backward: float, seconds: float, peak_memory_mb: float) -> None:
        self.num_examples += num_examples
        self.forward_passes += forward
        self.backward_passes += backward
        self.seconds += seconds
        self.peak_memory_mb = float(np.fmax(peak_memory_mb, self.peak_memory_mb))  # NaN only where nothing counts it

    def per_example(self) -> dict[str, float]:
        """Returns passes and seconds for one example, and the growth of memory at its peak in MiB."""
        count = max(self.num_examples, 1)
        return {
            "forward_passes": self.forward_passes / count,
            "backward_passes": self.backward_passes / count,
            "seconds": self.seconds / count,
            "peak_memory_mb": self.peak_memory_mb,
        }


class ComputeAttributions(ExplainingCallback):
    """Adds to the outputs what the callbacks after it read, for every batch.

    `explained` holds the batch's explained rows, `attributions` {name: Attribution} of them, and `predict` the network
    as metrics see it, which passes over the explained rows once for all metrics.

    Works in validate, test and predict under any Trainer: attributions run outside inference mode, in float32, with
    the network's modes and flags restored. Attention kernels are chosen once, at setup.

    Args:
        methods: attribution methods by the name that tables and plots show.
        targets: which classes are explained; metrics choose among their rows.
        num_top: number of classes explained with `targets: topk`.
        max_examples: explain only the first rows of each split, which bounds the cost of expensive methods.
        during_fit: see ExplainingCallback.
    """

    def __init__(
        self,
        methods: dict[str, AttributionMethod],
        targets: TargetPolicy = "gold_or_predicted",
        *,
        num_top: int = 1,
        max_examples: int | None = None,
        during_fit: bool = False,
    ) -> None:
        super().__init__(during_fit=during_fit)
        if not methods:
            raise ValueError("methods is empty: name at least one attribution method")
        self.methods = methods
        self.targets = targets
        self.num_top = num_top
        self.max_examples = max_examples
        self.costs = {name: Cost() for name in methods}

    @property
    def state_key(self) -> str:
        return self._generate_state_key(methods=sorted(self.methods), targets=self.targets)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.costs = {name: Cost() for name in self.methods}
        if any(method.needs_attentions for method in self.methods.values()) and (stage != "fit" or self.during_fit):
            if pl_module.network.attention_implementation != "eager":
                self._restore = pl_module.network.attention_implementation
                pl_module.network.set_attention("eager")

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if hasattr(self, "_restore"):
            pl_module.network.set_attention(self._restore)
            del self._restore

    def on_explained_batch(
        self, trainer: Trainer, module: LightningModule, outputs: dict[str, Any], batch: Batch, split: str
    ) -> None:
        rows = among_first(trainer, batch, split, self.max_examples).nonzero().flatten()
        explained = batch[rows]
        outputs["explained"] = explained
        outputs["attributions"] = {}
        outputs["predict"] = PredictOnce(
            module.network.predict,
            explained.inputs,
            decision_threshold=float(module.decision_threshold),
            pad_id=module.network.pad_id,
        )
        if not len(rows):
            return
        targets, target_mask = select_targets(
            self.targets,
            outputs["probs"][rows],
            explained.labels,
            decision_threshold=float(module.decision_threshold),
            topk=self.num_top,
        )
        for name, method in self.methods.items():
            method = method.for_split(split)
            peak, start = start_peak_memory(module.device), time.perf_counter()
            attribution = method.attribute(module.network, explained.inputs, targets, target_mask)
            seconds, memory = time.perf_counter() - start, peak()
            outputs["attributions"][name] = attribution
            num_tokens = explained.inputs.token_mask.sum(dim=1).tolist()
            passes = [method.passes(t, k) for t, k in zip(num_tokens, target_mask.sum(dim=1).tolist(), strict=True)]
            self.costs[name].add(
                len(rows), sum(p.forward for p in passes), sum(p.backward for p in passes), seconds, memory
            )
