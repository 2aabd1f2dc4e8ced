"""Learning rate schedules, as factors of the base learning rate."""

import math
from typing import Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

Decay = Literal["linear", "constant"]


def warmup_decay_factor(step: int, *, num_steps: int, warmup_fraction: float, decay: Decay) -> float:
    """Returns the factor of the learning rate at `step`.

    The factor rises linearly from 0 to 1 during the warm-up. After this, it falls linearly to 0 (decay "linear") or
    stays 1 (decay "constant").

    Example:
        >>> [warmup_decay_factor(step, num_steps=20, warmup_fraction=0.1, decay="linear") for step in (0, 1, 2, 11, 20)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    num_warmup = int(warmup_fraction * num_steps)
    if step < num_warmup:
        return step / num_warmup
    if decay == "constant":
        return 1.0
    return max(0.0, (num_steps - step) / max(1, num_steps - num_warmup))


def warmup_decay(optimizer: Optimizer, *, num_steps: int, warmup_fraction: float, decay: Decay) -> LambdaLR:
    """Returns a scheduler for `warmup_decay_factor`. Call its `step` after every optimizer step.

    Args:
        optimizer: the optimizer.
        num_steps: number of optimizer steps in the whole training.
        warmup_fraction: fraction of all steps during which the learning rate rises.
        decay: the learning rate after the warm-up: "linear" (falls to 0) or "constant".

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=2.0)
        >>> scheduler = warmup_decay(optimizer, num_steps=20, warmup_fraction=0.1, decay="constant")
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [1.0]
    """

    def factor(step: int) -> float:
        return warmup_decay_factor(step, num_steps=num_steps, warmup_fraction=warmup_fraction, decay=decay)

    return LambdaLR(optimizer, factor)


def num_limited_steps(steps_per_epoch: float, max_epochs: int, max_steps: int) -> int:
    """Returns the number of optimizer steps of a training. A limit that is not above 0 does not count.

    Args:
        steps_per_epoch: number of steps in an epoch, rounded up; infinite for data without a known length.
        max_epochs, max_steps: the trainer's limits.

    Example:
        >>> num_limited_steps(2.5, max_epochs=4, max_steps=-1), num_limited_steps(2.5, max_epochs=4, max_steps=10)
        (12, 10)
    """
    if math.isinf(steps_per_epoch):
        return max_steps
    return min(limit for limit in (math.ceil(steps_per_epoch) * max_epochs, max_steps) if limit > 0)
