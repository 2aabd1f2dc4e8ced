"""Learning rate schedules, as factors of the base rate."""

from typing import Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

Decay = Literal["linear", "constant"]


def warmup_decay_factor(step: int, *, num_steps: int, warmup_fraction: float, decay: Decay) -> float:
    """Returns the factor of `step` out of `num_steps`: linear from 0 during warm-up, then linear to 0 or constant."""
    num_warmup = int(warmup_fraction * num_steps)
    if step < num_warmup:
        return step / num_warmup
    if decay == "constant":
        return 1.0
    return max(0.0, (num_steps - step) / max(1, num_steps - num_warmup))


def warmup_decay(optimizer: Optimizer, *, num_steps: int, warmup_fraction: float, decay: Decay) -> LambdaLR:
    """Returns a scheduler to be stepped after every optimizer step."""

    def factor(step: int) -> float:
        return warmup_decay_factor(step, num_steps=num_steps, warmup_fraction=warmup_fraction, decay=decay)

    return LambdaLR(optimizer, factor)
