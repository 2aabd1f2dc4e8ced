"""Lets Adam and AdamW update all weights in one kernel, which takes a fraction of the time of the usual loop."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Adam, AdamW, Optimizer

DEVICES = ("cpu", "cuda", "mps", "xpu")  # device types for which PyTorch has fused kernels of Adam and AdamW


def use_fused_kernel(optimizer: Optimizer) -> None:
    """Turns on the fused kernel of Adam or AdamW for each parameter group whose devices have such a kernel.

    Does nothing for other optimizers. A group in which `fused`, `foreach`, `capturable` or `differentiable` is already
    set keeps its settings. If a group is fused, also by its own setting, `_raise_versions` runs after every step.

    Example:
        >>> import torch
        >>> optimizer = AdamW([torch.ones(2, requires_grad=True)])
        >>> use_fused_kernel(optimizer)
        >>> optimizer.param_groups[0]["fused"]
        True
    """
    if not isinstance(optimizer, (Adam, AdamW)):
        return
    for group in optimizer.param_groups:
        is_open = group["fused"] is None and group["foreach"] is None
        is_open = is_open and not group["capturable"] and not group["differentiable"]
        if is_open and all(p.device.type in DEVICES and p.is_floating_point() for p in group["params"]):
            group["fused"] = True
    if any(group["fused"] for group in optimizer.param_groups):
        optimizer.register_step_post_hook(_raise_versions)


def _raise_versions(optimizer: Optimizer, *_: Any) -> None:
    """Raises the version counters of all weights, because a fused step changes the weights without raising them.

    Caches compare version counters to notice that weights have changed.
    """
    for group in optimizer.param_groups:
        for weight in group["params"]:
            torch.autograd.graph.increment_version(weight)
