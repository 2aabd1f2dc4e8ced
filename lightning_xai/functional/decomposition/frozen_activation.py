"""An activation as the line that stands for it at its true value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Approximation = Literal["zero_origin", "local_affine", "relu"]


def linearize(
    activation: Callable[[Tensor], Tensor], preactivation: Tensor, approximation: Approximation
) -> tuple[Tensor, Tensor | None]:
    """Returns slope and intercept (None if it is 0) of the line that stands for `activation` at each value.

    "zero_origin" goes through the origin and the true value, "local_affine" is the tangent, "relu" has slope 1 above
    zero and 0 below, whatever the activation is.

    Raises:
        ValueError: a line through the origin is asked for, but the activation is not 0 there.
    """
    if approximation == "relu":
        return (preactivation > 0).to(preactivation.dtype), None
    if approximation == "local_affine":
        slope = _derivative(activation, preactivation)
        return slope, activation(preactivation) - slope * preactivation
    origin = preactivation.new_zeros(1)
    if float(activation(origin).abs()) > 1e-6:
        raise ValueError(
            f"{type(activation).__name__} is {float(activation(origin)):.3g} at 0, so no line through the origin "
            "stands for it: choose 'local_affine'"
        )
    zero = preactivation == 0
    slope = activation(preactivation) / preactivation.masked_fill(zero, 1.0)
    return slope.where(~zero, _derivative(activation, origin)), None


def _derivative(activation: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    create_graph = torch.is_grad_enabled() and at.requires_grad
    with torch.enable_grad():
        at = at if create_graph else at.detach().requires_grad_()
        return torch.autograd.grad(activation(at).sum(), at, create_graph=create_graph)[0]
