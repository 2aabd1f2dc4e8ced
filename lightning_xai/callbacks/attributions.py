"""Explains every evaluated batch and hands the attributions to the callbacks after it."""

from __future__ import annotations

import time
from typing import Any

import torch
from lightning import LightningModule, Trainer

from lightning_xai.attributions.base import AttributionMethod, ReadsSplit
from lightning_xai.callbacks.base import ExplainingCallback, among_first
from lightning_xai.functional.targets import TargetPolicy, select_targets
from lightning_xai.metrics.base import PredictOnce
from lightning_xai.types import Batch


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
        self.peak_memory_mb = max(peak_memory_mb, self.peak_memory_mb)  # NaN (no device counter) stays NaN

    def per_example(self) -> dict[str, float]:
        """Returns passes and seconds for one example, and the peak of device memory in MiB (NaN on the CPU)."""
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
        outputs["predict"] = PredictOnce(module.network.predict, explained.inputs)
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
            if isinstance(method, ReadsSplit):
                method.split = split
            start, peak = time.perf_counter(), _reset_peak_memory(module.device)
            attribution = method.attribute(module.network, explained.inputs, targets, target_mask)
            seconds, memory = time.perf_counter() - start, peak()
            outputs["attributions"][name] = attribution
            num_tokens = explained.inputs.token_mask.sum(dim=1).tolist()
            passes = [method.passes(t, k) for t, k in zip(num_tokens, target_mask.sum(dim=1).tolist(), strict=True)]
            self.costs[name].add(
                len(rows), sum(p.forward for p in passes), sum(p.backward for p in passes), seconds, memory
            )


def _reset_peak_memory(device: torch.device):
    """Returns a function that tells the peak of device memory in MiB since now; NaN without a device counter."""
    if device.type != "cuda":
        return lambda: float("nan")
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    return lambda: (torch.cuda.max_memory_allocated(device) - before) / 2**20
