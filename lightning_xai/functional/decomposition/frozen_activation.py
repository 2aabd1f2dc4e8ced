"""Replaces an activation function by a straight line at each preactivation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Approximation = Literal["zero_origin", "local_affine", "relu"]


def linearize(
    activation: Callable[[Tensor], Tensor], preactivation: Tensor, approximation: Approximation
) -> tuple[Tensor, Tensor | None]:
    """Returns the slope and the intercept (None if 0) of the line that replaces `activation` at each value z.

    Args:
        activation: an elementwise function.
        preactivation: the values z in a forward pass, of any shape.
        approximation: "zero_origin" takes the line through (0, 0) and (z, activation(z)), and "local_affine" takes the
            tangent at z. "relu" takes the slope of ReLU, whatever the activation is: 1 for z > 0 and 0 otherwise.

    Raises:
        ValueError: `approximation` is "zero_origin", but the activation is not 0 at 0.

    Example:
        >>> z = torch.tensor([-1.0, 2.0])
        >>> linearize(torch.square, z, "zero_origin")  # -1 * -1 = 1, 2 * 2 = 4
        (tensor([-1.,  2.]), None)
        >>> linearize(torch.square, z, "local_affine")  # 4 * 2 - 4 = 4
        (tensor([-2.,  4.]), tensor([-1., -4.]))
    """
    if approximation == "relu":
        return (preactivation > 0).to(preactivation.dtype), None
    if approximation == "local_affine":
        slope = _derivative(activation, preactivation)
        return slope, activation(preactivation) - slope * preactivation
    origin = preactivation.new_zeros(1)
    if float(activation(origin).abs()) > 1e-6:
        raise ValueError(
            f"{type(activation).__name__} is {float(activation(origin)):.3g} at 0, so no line through the origin can "
            "replace it: choose 'local_affine'"
        )
    zero = preactivation == 0
    slope = activation(preactivation) / preactivation.masked_fill(zero, 1.0)
    return slope.where(~zero, _derivative(activation, origin)), None


def _derivative(activation: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    create_graph = torch.is_grad_enabled() and at.requires_grad
    with torch.enable_grad():
        at = at if create_graph else at.detach().requires_grad_()
        return torch.autograd.grad(activation(at).sum(), at, create_graph=create_graph)[0]
