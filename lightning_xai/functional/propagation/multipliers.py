"""DeepLift's multipliers: slopes of functions between x and b, a tensor's values for the input and for the baseline."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# secant slopes (f(x) - f(b)) / (x - b), in a form that does not subtract nearly equal numbers
EXACT_SLOPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "square": lambda x, b: x + b,
    "cube": lambda x, b: x * x + x * b + b * b,
    "sqrt": lambda x, b: 1 / (x.sqrt() + b.sqrt()),
    "rsqrt": lambda x, b: -x.rsqrt() * b.rsqrt() / (x.sqrt() + b.sqrt()),
    "reciprocal": lambda x, b: -1 / (x * b),
}
POWERS = {2.0: "square", 3.0: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
SMOOTH = frozenset("erf exp gelu logsigmoid mish sigmoid silu softplus softsign tanh".split())
# functions with kinks. If there is a kink between x and b, a derivative cannot approximate the secant slope
KINKED = frozenset("abs celu clamp clip elu hardsigmoid hardswish hardtanh leaky_relu relu relu6 selu".split())


def secant_slope(
    function: Callable[[Tensor], Tensor], x: Tensor, b: Tensor, values: tuple[Tensor, Tensor], *, smooth: bool
) -> Tensor:
    """Returns the secant slope (function(x) - function(b)) / (x - b), or a derivative where x and b are too close.

    Args:
        function: an elementwise function.
        x: the function's argument for the input, of any shape.
        b: the function's argument for the baseline, of the same shape as x.
        values: function(x) and function(b).
        smooth: True for a function without kinks. Then, the derivative at (x + b) / 2 replaces the quotient wherever x
            and b are so close that rounding would distort the quotient. For a function with kinks, the derivative
            replaces the quotient only where x and b are equal.

    Example:
        >>> x, b = torch.tensor([3.0, 2.0]), torch.tensor([-1.0, 2.0])
        >>> secant_slope(torch.relu, x, b, (x.relu(), b.relu()), smooth=False)  # (3 - 0) / (3 - -1), and relu'(2)
        tensor([0.7500, 1.0000])
    """
    difference = x - b
    slope = (values[0] - values[1]) / difference
    nearest = torch.finfo(x.dtype).eps ** (1 / 3) if smooth else torch.finfo(x.dtype).tiny
    places = (difference.abs() < nearest).flatten().nonzero().squeeze(1)
    if len(places):
        with torch.enable_grad():
            middle = ((x.flatten()[places] + b.flatten()[places]) / 2).requires_grad_()
            derivatives = torch.autograd.grad(function(middle).sum(), middle)[0]
        slope = slope.flatten().index_copy(0, places, derivatives).view_as(x)
    return slope


def exp_slope(difference: Tensor, values: tuple[Tensor, Tensor]) -> Tensor:
    """Returns the secant slope of exp between two points, or the mean of the two values if the points are close.

    Args:
        difference: the first point minus the second.
        values: exp(first point) and exp(second point).

    Example:
        >>> exp_slope(torch.tensor([2.0, 0.0]), (torch.tensor([7.0, 3.0]), torch.tensor([1.0, 3.0])))
        tensor([3., 3.])
    """
    # if both points are -inf, their difference is nan, which counts as close
    near = ~(difference.abs() >= torch.finfo(difference.dtype).eps ** (1 / 3))
    return torch.where(near, (values[0] + values[1]) / 2, (values[0] - values[1]) / difference)


def softmax_multipliers(x: Tensor, b: Tensor, values: tuple[Tensor, Tensor], dim: int) -> tuple[Tensor, Tensor]:
    """Returns slopes s of exp and weights w of log-sum-exp, which describe the change of softmax between b and x.

    Both have the shape of x. The weights satisfy sum(w * (x - b)) = logsumexp(x) - logsumexp(b). Because
    softmax(x) = exp(x - logsumexp(x)), it follows that softmax(x) - softmax(b) = s * ((x - b) - sum(w * (x - b))).

    If a constant is added to x or b, softmax does not change, and w and s do not become large. Separate rules for
    exp(x) and 1 / sum would turn such a constant into large multipliers that cancel each other.

    Args:
        x: scores for the input.
        b: scores for the baseline.
        values: softmax(x) and softmax(b).
        dim: dimension of the softmax.

    Example:
        >>> x, b = torch.tensor([1.0, 3.0]), torch.tensor([2.0, 2.0])
        >>> slopes, weights = softmax_multipliers(x, b, (x.softmax(0), b.softmax(0)), 0)
        >>> change = slopes * ((x - b) - (weights * (x - b)).sum())
        >>> torch.allclose(change, x.softmax(0) - b.softmax(0))
        True
    """
    totals = torch.logsumexp(x, dim, keepdim=True), torch.logsumexp(b, dim, keepdim=True)
    shift = torch.maximum(*totals)  # both sums of exponentials are divided by exp(shift), so that neither overflows
    sums = (totals[0] - shift).exp(), (totals[1] - shift).exp()
    difference, apart = x - b, totals[0] - totals[1]
    weights = exp_slope(difference, (values[0] * sums[0], values[1] * sums[1])) / exp_slope(apart, sums)
    return exp_slope(difference - apart, values), weights


def norm_multipliers(x: Tensor, b: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (scale, middle, slope). They describe how the norm f(c) = c / sqrt(mean(c^2) + eps) changes from b to x.

    With d = x - b: f(x) - f(b) = scale * d + middle * slope * mean(middle * d). The two terms follow from the rule for
    the product of c and 1 / sqrt(...). `middle` is (x + b) / 2. `slope` combines the secant slopes of the square and of
    1 / sqrt, and `scale` is the mean of 1 / sqrt(...) over x and b.

    Args:
        x: states for the input, centered if the norm centers its input.
        b: states for the baseline, also centered if the norm centers.
        dims: dimensions of the mean.
        eps: epsilon of the norm.

    Example:
        >>> x, b = torch.tensor([3.0, -3.0, 1.0]), torch.tensor([1.0, 2.0, 0.0])
        >>> scale, middle, slope = norm_multipliers(x, b, (0,), 0.0)
        >>> change = scale * (x - b) + middle * slope * (middle * (x - b)).mean()
        >>> torch.allclose(change, x / x.square().mean().sqrt() - b / b.square().mean().sqrt())
        True
    """
    roots = [(states.square().mean(dims, keepdim=True) + eps).rsqrt() for states in (x, b)]
    slope = -2 * (roots[0] * roots[1]).square() / (roots[0] + roots[1])
    return (roots[0] + roots[1]) / 2, (x + b) / 2, slope
