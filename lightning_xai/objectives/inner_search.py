"""Inner problems of robust training: for every example, find the noise or the mask that the outer loss trains on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

StepRule = Literal["adamw", "sign"]
Stop = Literal["example", "batch"]

# Inner gradients pass through float16 networks without the trainer's loss scaling, where small ones would underflow.
# A power of two: multiplying and dividing by it changes no bit in float32 and bfloat16.
GRADIENT_SCALE = 1024.0


class Moments(NamedTuple):
    """State of AdamW: running means of the gradient and of its square, and the steps taken."""

    first: Tensor
    second: Tensor
    num_steps: int


def adamw_step(
    variable: Tensor, gradient: Tensor, moments: Moments, *, lr: float, weight_decay: float
) -> tuple[Tensor, Moments]:
    """Returns `variable` after one step of AdamW with torch's default betas and epsilon, and the new moments.

    Every element moves by itself, so the rows of a batch do not affect each other.
    """
    num_steps = moments.num_steps + 1
    first = torch.lerp(moments.first, gradient, 0.1)
    second = torch.lerp(moments.second, gradient.square(), 0.001)
    denominator = (second / (1 - 0.999**num_steps)).sqrt() + 1e-8
    variable = variable * (1 - lr * weight_decay) - lr / (1 - 0.9**num_steps) * first / denominator
    return variable, Moments(first, second, num_steps)


class Minimum(NamedTuple):
    """Where `minimize_rows` ended."""

    variable: Tensor  # [B, ...]
    num_steps: Tensor  # [B] long, steps that each row took


def minimize_rows(
    values: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    num_steps: int,
    lr: float,
    weight_decay: float = 0.0,
    step_rule: StepRule = "adamw",
    tolerance: float | None = None,
    stop: Stop = "example",
    gradient_scale: float = 1.0,
) -> Minimum:
    """Returns the variable that lowers every row of `values`, by gradient steps that leave all other tensors alone.

    Args:
        values: maps the variable [B, ...] to one value a row [B]; a row's value depends on that row alone.
        start: [B, ...] float32 or float64.
        tolerance: stop when a value is within this fraction of the value two steps earlier (that step is still taken);
            None takes all steps.
        stop: whether rows stop one by one, or all together when the batch's mean value stops.
        gradient_scale: factor on gradients; it matters to AdamW only where they are near its epsilon of 1e-8.
    """
    variable = start.detach()
    moments = Moments(torch.zeros_like(variable), torch.zeros_like(variable), 0)
    active = torch.ones(len(variable), dtype=torch.bool, device=variable.device)
    taken = torch.zeros(len(variable), dtype=torch.long, device=variable.device)
    history: list[Tensor] = []
    for _ in range(num_steps):
        variable.requires_grad_()
        current = values(variable)
        (gradient,) = torch.autograd.grad((current * GRADIENT_SCALE).sum(), variable)
        variable, gradient = variable.detach(), gradient * (gradient_scale / GRADIENT_SCALE)
        if step_rule == "adamw":
            moved, moments = adamw_step(variable, gradient, moments, lr=lr, weight_decay=weight_decay)
        else:
            moved = variable - lr * gradient.sign()
        variable = torch.where(active.view(-1, *[1] * (variable.dim() - 1)), moved, variable)
        taken += active
        history.append(current.detach() if stop == "example" else current.detach().mean().expand(len(current)))
        if tolerance is not None and len(history) > 2:
            active &= (history[-1] - history[-3]).abs() > tolerance * history[-3].abs()
            if not active.any():
                break
    return Minimum(variable, taken)


def require_finite(variable: Tensor, index: Tensor, name: str) -> Tensor:
    """Returns `variable` [B, ...] as it is.

    Raises:
        ValueError: a row is not finite; the error names its example in `index` [B].
    """
    finite = variable.isfinite().flatten(1).all(dim=1)
    if not finite.all():
        raise ValueError(
            f"the {name} of examples {index[~finite].tolist()} is not finite: lower the learning rate, or train in "
            "float32 or bf16-mixed instead of 16-mixed"
        )
    return variable
