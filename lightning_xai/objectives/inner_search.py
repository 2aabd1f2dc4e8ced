"""Inner searches: within a training step, they find adversarial noise or a mask for each example by gradient steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from lightning_xai.functional.choices import require_choices

StepRule = Literal["adamw", "sign"]
Stop = Literal["example", "batch"]

# Losses of inner searches are multiplied by this factor, and their gradients are divided by it. Otherwise, small
# gradients would underflow in float16, since the trainer does not scale these losses. A power of two causes no
# rounding.
GRADIENT_SCALE = 1024.0


@dataclass(frozen=True)
class Search:
    """Settings of an inner search: the sizes of its steps, and the condition that stops the search.

    Args:
        num_steps: largest number of steps.
        lr: learning rate.
        weight_decay: weight decay of AdamW.
        tolerance: the loss before step t is compared with the loss before step t - 2. If they differ by at most this
            fraction of the earlier loss, step t is the last. With None, the search takes all steps.
        stop: the loss to which `tolerance` applies. With "example", each example's loss decides when the search for
            this example stops. With "batch", the mean loss decides when the searches for all examples stop, so the
            result depends on the micro-batch.

    Raises:
        ValueError: a number is out of range, or `stop` is neither "example" nor "batch".

    Example:
        >>> Search(num_steps=20, lr=0.5)
        Search(num_steps=20, lr=0.5, weight_decay=0.01, tolerance=None, stop='example')
    """

    num_steps: int
    lr: float = 0.1
    weight_decay: float = 0.01
    tolerance: float | None = None
    stop: Stop = "example"

    @property
    def independent_of_batch(self) -> bool:
        """Whether the number of search steps of an example is independent of the other examples of the micro-batch.

        Example:
            >>> Search(num_steps=20, tolerance=0.1, stop="batch").independent_of_batch
            False
        """
        return self.tolerance is None or self.stop == "example"

    def __post_init__(self) -> None:
        require_choices({"stop": Stop}, {"stop": self.stop})
        if self.num_steps < 1:
            raise ValueError(f"search.num_steps is {self.num_steps}: give at least 1")
        if self.lr <= 0:
            raise ValueError(f"search.lr is {self.lr}: give a number above 0")
        for name, value in {"weight_decay": self.weight_decay, "tolerance": self.tolerance}.items():
            if value is not None and value < 0:
                raise ValueError(f"search.{name} is {value}: give 0 or more")


class AdamWState(NamedTuple):
    """State of AdamW: running means of the gradient and of the squared gradient, and the number of steps taken.

    Example:
        >>> AdamWState.zeros(torch.ones(1, 2)).first.tolist()
        [[0.0, 0.0]]
    """

    first: Tensor
    second: Tensor
    num_steps: int

    @classmethod
    def zeros(cls, variable: Tensor) -> AdamWState:
        """Returns the state before the first step."""
        return cls(torch.zeros_like(variable), torch.zeros_like(variable), 0)


def adamw_step(
    variable: Tensor, gradient: Tensor, moments: AdamWState, *, lr: float, weight_decay: float
) -> tuple[Tensor, AdamWState]:
    """Returns `variable` after one step of AdamW with torch's default betas and epsilon, and the new state of AdamW.

    Elements are updated independently, so the rows of a batch do not affect each other.

    Example:
        >>> variable = torch.tensor([1.0, -1.0])
        >>> gradient, moments = torch.tensor([3.0, -3.0]), AdamWState.zeros(variable)
        >>> moved, _ = adamw_step(variable, gradient, moments, lr=0.5, weight_decay=0)
        >>> moved  # the first step is as long as the learning rate
        tensor([ 0.5000, -0.5000])
    """
    num_steps = moments.num_steps + 1
    first = torch.lerp(moments.first, gradient, 0.1)
    second = torch.lerp(moments.second, gradient.square(), 0.001)
    denominator = (second / (1 - 0.999**num_steps)).sqrt() + 1e-8
    variable = variable * (1 - lr * weight_decay) - lr / (1 - 0.9**num_steps) * first / denominator
    return variable, AdamWState(first, second, num_steps)


class Minimum(NamedTuple):
    """The result of `minimize_rows`.

    Example:
        >>> minimize_rows(lambda variable: variable.sum(dim=1), torch.zeros(2, 3), Search(num_steps=4)).num_steps
        tensor([4, 4])
    """

    variable: Tensor  # [B, ...] the variable after the search
    num_steps: Tensor  # [B] long, number of steps that each row took


def minimize_rows(
    values: Callable[[Tensor], Tensor],
    start: Tensor,
    search: Search,
    *,
    step_rule: StepRule = "adamw",
    gradient_scale: float = 1.0,
) -> Minimum:
    """Minimizes `values` by gradient steps on a variable, separately for each row. No other tensor gets a gradient.

    Args:
        values: maps the variable [B, ...] to one value per row [B], which must depend only on this row.
        start: [B, ...] float32 or float64, the variable before the first step.
        search: number and size of the steps, and when the search stops.
        step_rule: "adamw", or "sign" for steps of length `search.lr` against the sign of the gradient.
        gradient_scale: factor by which gradients are multiplied. It has no effect with "sign". With "adamw", it matters
            only if gradients are about as small as AdamW's epsilon, 1e-8.

    Example:
        >>> def squares(variable):
        ...     return variable.square().sum(dim=1)
        >>> minimize_rows(squares, torch.tensor([[1.0, -2.0]]), Search(num_steps=1, lr=0.25), step_rule="sign").variable
        tensor([[ 0.7500, -1.7500]])
    """
    variable = start.detach()
    moments = AdamWState.zeros(variable)
    active = torch.ones(len(variable), dtype=torch.bool, device=variable.device)
    num_steps = torch.zeros(len(variable), dtype=torch.long, device=variable.device)
    history: list[Tensor] = []
    for _ in range(search.num_steps):
        variable.requires_grad_()
        current = values(variable)
        (gradient,) = torch.autograd.grad((current * GRADIENT_SCALE).sum(), variable)
        variable, gradient = variable.detach(), gradient * (gradient_scale / GRADIENT_SCALE)
        if step_rule == "adamw":
            moved, moments = adamw_step(variable, gradient, moments, lr=search.lr, weight_decay=search.weight_decay)
        else:
            moved = variable - search.lr * gradient.sign()
        variable = torch.where(active.view(-1, *[1] * (variable.dim() - 1)), moved, variable)
        num_steps += active
        current = current.detach()
        history.append(current if search.stop == "example" else current.mean().expand(len(current)))
        if search.tolerance is not None and len(history) > 2:
            active &= (history[-1] - history[-3]).abs() > search.tolerance * history[-3].abs()
            if not active.any():
                break
    return Minimum(variable, num_steps)


def require_finite(variable: Tensor, index: Tensor, name: str) -> Tensor:
    """Checks that a variable [B, ...] is finite, and returns it unchanged.

    Args:
        variable: [B, ...] result of a search.
        index: [B] index of each row's example, for the error message.
        name: name of the variable, for the error message.

    Raises:
        ValueError: a row has values that are not finite; the message has the index of its example.

    Example:
        >>> require_finite(torch.tensor([[0.5]]), torch.tensor([7]), "token mask").tolist()
        [[0.5]]
    """
    finite = variable.isfinite().flatten(1).all(dim=1)
    if not finite.all():
        raise ValueError(
            f"the {name} of the examples with indices {index[~finite].tolist()} is not finite: lower the learning "
            "rate, or train in float32 or bf16-mixed instead of 16-mixed"
        )
    return variable
