"""Dual ascent: a constraint's multiplier grows while the constraint is violated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn


@dataclass(frozen=True)
class Constraint:
    """A bound on a loss.

    Args:
        bound: largest value that the loss should have in training. With "auto", separate runs first minimize only this
            loss, and both `bound` and `validation_bound` are computed from these runs.
        validation_bound: the constraint counts as met if the loss in validation is below 1.1 times this value. If None,
            `bound` is used.

    Raises:
        ValueError: a bound is not above 0, or `validation_bound` is given although `bound` is "auto".

    Example:
        >>> Constraint(bound=0.035, validation_bound=0.031).is_met(0.034)
        True
    """

    bound: float | Literal["auto"]
    validation_bound: float | None = None

    def __post_init__(self) -> None:
        if self.bound == "auto" and self.validation_bound is not None:
            raise ValueError(
                f"bound is 'auto', which also sets validation_bound, but validation_bound is {self.validation_bound}: "
                "leave out validation_bound"
            )
        for name, value in {"bound": self.bound, "validation_bound": self.validation_bound}.items():
            is_number = isinstance(value, int | float) and value is not True and math.isfinite(value) and value > 0
            if not (is_number or (name, value) in {("bound", "auto"), ("validation_bound", None)}):
                raise ValueError(f"{name} is {value}: give a number above 0 (for `bound`, 'auto' is allowed, too)")

    def is_met(self, validation_loss: float) -> bool:
        """Returns whether a loss in validation is below 1.1 times the validation bound."""
        return validation_loss < self.validation_limit

    @property
    def validation_limit(self) -> float:
        """1.1 times the validation bound. The loss in validation must be below it."""
        bound = self.bound if self.validation_bound is None else self.validation_bound
        assert bound != "auto", "the bound is not known yet"
        return 1.1 * bound

    @property
    def shown(self) -> str:
        """A few words for the user, with the bound in training and the limit in validation."""
        return f"at most {self.bound:g}, in validation below {self.validation_limit:g}"


class DualAscent(nn.Module):
    """The multipliers alpha of constraints of the form loss <= bound. They start at 1 and never fall below 0.

    In each step, their optimizer minimizes -alpha * violation, where the violation is loss - bound. The multipliers are
    buffers, so checkpoints contain them, but the network's optimizer and gradient clipping do not affect them.

    Args:
        num_constraints: number n of constraints.
        optimizer: function that returns the optimizer of the multipliers.
        averaging: factor a of the moving average a * average + (1 - a) * violation. The optimizer uses this average in
            place of the violation. With 0, each step uses only its own violation.

    Attributes:
        alpha: [n] the multipliers.
        average: [n] the moving average of the violations; NaN before the first step.

    Raises:
        ValueError: `averaging` is not in [0, 1).

    Example:
        >>> dual = DualAscent(1, lambda parameters: torch.optim.RMSprop(parameters, lr=0.05))
        >>> for loss in (0.10, 0.10, 0.02):
        ...     dual.step(torch.tensor([loss - 0.035]))
        ...     print(f"{dual.alpha.item():.4f}")
        1.5000
        1.8544
        1.7733
    """

    alpha: Tensor
    average: Tensor

    def __init__(self, num_constraints: int, optimizer: OptimizerCallable, averaging: float = 0.0) -> None:
        super().__init__()
        if not 0 <= averaging < 1:
            raise ValueError(f"averaging is {averaging}: give a factor of at least 0 and below 1")
        self.averaging = averaging
        self.make_optimizer = optimizer
        self.register_buffer("alpha", torch.ones(num_constraints))
        self.register_buffer("average", torch.full((num_constraints,), float("nan")))
        # built at the first step, because `to(device)` replaces the tensor `alpha` before that step
        self._optimizer: torch.optim.Optimizer | None = None
        self._rates: list[float] = []
        self._loaded: dict[str, Any] | None = None  # the optimizer's state from a checkpoint

    def step(self, violations: Tensor, rate_factor: float = 1.0) -> None:
        """Updates the multipliers by one step of their optimizer.

        Args:
            violations: [n], for each constraint, its loss minus its bound; must be the same on all processes.
            rate_factor: factor of the learning rate in this step.
        """
        optimizer = self._optimizer or self._made()
        violations = violations.detach().to(self.alpha.dtype)
        self.average.copy_(
            torch.where(self.average.isnan(), violations, torch.lerp(violations, self.average, self.averaging))
        )
        self.alpha.grad = -self.average
        for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * rate_factor
        optimizer.step()
        self.alpha.grad = None
        self.alpha.clamp_(min=0)

    def optimizer_state(self) -> dict[str, Any] | None:
        """Returns the state of the optimizer for a checkpoint; None if there was neither a step nor a loaded state."""
        return self._loaded if self._optimizer is None else self._optimizer.state_dict()

    def load_optimizer_state(self, state: dict[str, Any] | None) -> None:
        """Restores the state of the optimizer from a checkpoint."""
        self._optimizer, self._loaded = None, state

    def _made(self) -> torch.optim.Optimizer:
        self._optimizer = self.make_optimizer([self.alpha])
        self._rates = [float(group["lr"]) for group in self._optimizer.param_groups]
        if self._loaded is not None:
            self._optimizer.load_state_dict(self._loaded)
        return self._optimizer
