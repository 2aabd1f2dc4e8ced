"""DeepLift's multipliers: a network whose derivative says exactly how its output differs from that at a baseline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lightning_xai.functional.propagation.tracked import (
    LINEAR,
    PRODUCTS,
    QUOTIENTS,
    WITHOUT_RULE,
    Rules,
    Tracked,
    attention_scores,
    norm_arguments,
    plain,
    repeat_heads,
    replaced,
    writes_in_place,
)

# (f(x) - f(b)) / (x - b), written so that nothing cancels
EXACT_SLOPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "square": lambda x, b: x + b,
    "cube": lambda x, b: x * x + x * b + b * b,
    "sqrt": lambda x, b: 1 / (x.sqrt() + b.sqrt()),
    "rsqrt": lambda x, b: -x.rsqrt() * b.rsqrt() / (x.sqrt() + b.sqrt()),
    "reciprocal": lambda x, b: -1 / (x * b),
}
POWERS = {2.0: "square", 3.0: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
SMOOTH = frozenset("erf exp gelu logsigmoid mish sigmoid silu softplus softsign tanh".split())
# these may bend between x and b however near the two are, and do not cancel there
KINKED = frozenset("abs celu clamp clip elu hardsigmoid hardswish hardtanh leaky_relu relu relu6 selu".split())


class _At(torch.autograd.Function):
    """Returns `value`, with the derivative of `surrogate`."""

    @staticmethod
    def forward(ctx: Any, surrogate: Tensor, value: Tensor) -> Tensor:
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def secant_slope(
    function: Callable[[Tensor], Tensor], x: Tensor, b: Tensor, values: tuple[Tensor, Tensor], *, smooth: bool
) -> Tensor:
    """Returns (function(x) - function(b)) / (x - b) elementwise, and a derivative where x and b are too near for it.

    Args:
        values: function(x) and function(b).
        smooth: whether the derivative half-way is taken for distances whose quotient would be rounding; otherwise
            for equal x and b only.
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
    """Returns the slope of exp between two points `difference` apart, with the `values` exp has there."""
    # nan where both points are -inf
    near = ~(difference.abs() >= torch.finfo(difference.dtype).eps ** (1 / 3))
    return torch.where(near, (values[0] + values[1]) / 2, (values[0] - values[1]) / difference)


def softmax_multipliers(x: Tensor, b: Tensor, values: tuple[Tensor, Tensor], dim: int) -> tuple[Tensor, Tensor]:
    """Returns the slopes of exp and the weights of log-sum-exp in softmax(x) = exp(x - logsumexp(x)), shaped like x.

    The weights w satisfy sum(w * (x - b)) = logsumexp(x) - logsumexp(b). Both are bounded whatever constants are added
    to x or to b, to which softmax is blind too; exp(x) * (1 / sum) would give large multipliers that cancel.

    Args:
        values: softmax(x) and softmax(b).
    """
    totals = torch.logsumexp(x, dim, keepdim=True), torch.logsumexp(b, dim, keepdim=True)
    shift = torch.maximum(*totals)  # taken out of all, so that nothing overflows
    sums = (totals[0] - shift).exp(), (totals[1] - shift).exp()
    difference, apart = x - b, totals[0] - totals[1]
    weights = exp_slope(difference, (values[0] * sums[0], values[1] * sums[1])) / exp_slope(apart, sums)
    return exp_slope(difference - apart, values), weights


def norm_multipliers(x: Tensor, b: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (scale, middle, slope) of a norm, c / std(c) of centered states c at `x` and `b`.

    It changes as c * scale + middle * slope * mean(middle * c) does, by the rules of products and of the square, the
    mean and the root in 1 / std.
    """
    roots = [(states.square().mean(dims, keepdim=True) + eps).rsqrt() for states in (x, b)]
    slope = -2 * (roots[0] * roots[1]).square() / (roots[0] + roots[1])
    return (roots[0] + roots[1]) / 2, (x + b) / 2, slope


class Rescale(Rules):
    """Rules that carry every tensor together with its value at the baseline (`other`), and multipliers as derivatives.

    The derivative m of an output by a tensor satisfies sum(m * (x - b)) = output(x) - output(b) exactly: elementwise
    functions have their secant's slope, a product u v has mean(v) for u and mean(u) for v, and softmax, LayerNorm,
    RMSNorm and attention are made of these. `ValueError`s name functions without a rule.
    """

    def __call__(self, func: Callable, name: str, tracked: list[Tracked], args: tuple, kwargs: dict) -> Any:
        writes = writes_in_place(name, args, kwargs)
        base = name.removesuffix("_")
        factors = 1 if base in LINEAR else self._num_factors(base, tracked, args)
        if factors == 1 and (base in LINEAR | PRODUCTS or self._is_quotient(base, kwargs)):
            result = self._linear(func, args, kwargs)
            if not writes:
                return result
            args[0].other = result.other
            return args[0]
        if writes:
            raise ValueError(f"{name} writes something not linear into hidden states: {WITHOUT_RULE}")
        if base in PRODUCTS and factors == 2:
            return self._product(func, args, kwargs)
        if self._is_quotient(base, kwargs):
            return args[0] * args[1].reciprocal()
        if base == "rdiv":
            return args[0].reciprocal() * args[1]
        if base == "pow" and not isinstance(args[1], Tensor) and float(args[1]) in POWERS:
            base = POWERS[float(args[1])]
        if base in EXACT_SLOPES or base in SMOOTH or base in KINKED:
            return self._elementwise(func, base, args, kwargs)
        if base == "softmax":
            return self._softmax(func, args, kwargs)
        if base in ("layer_norm", "rms_norm"):
            return self._norm(func, base, args, kwargs)
        if base == "scaled_dot_product_attention" and not kwargs.get("dropout_p"):
            scores = attention_scores(*args, **kwargs)
            return scores.softmax(-1) @ repeat_heads(args[2], scores.shape[-3])
        if base == "dropout" and not kwargs.get("training", args[2] if len(args) > 2 else True):
            return args[0]
        raise ValueError(
            f"{name} has no DeepLift rule: rules are for linear functions, products, quotients, softmax, layer_norm, "
            f"rms_norm, attention, powers {', '.join(map(str, POWERS))}, {', '.join(sorted(SMOOTH | KINKED))}; "
            f"{WITHOUT_RULE}"
        )

    @staticmethod
    def _num_factors(base: str, tracked: list[Tracked], args: tuple) -> int:
        addend = 1 if base == "addmm" and isinstance(args[0], Tracked) else 0
        return max(len(tracked) - addend, addend)

    @staticmethod
    def _is_quotient(base: str, kwargs: dict) -> bool:
        return base in QUOTIENTS and kwargs.get("rounding_mode") is None

    def _linear(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        result = func(*replaced(args, plain), **replaced(kwargs, plain))
        return self.wrap(result, self._at_baseline(func, args, kwargs))

    @staticmethod
    @torch.no_grad()
    def _at_baseline(func: Callable, args: tuple, kwargs: dict) -> Any:
        return func(*replaced(args, baseline), **replaced(kwargs, baseline))

    def _product(self, func: Callable, args: tuple, kwargs: dict) -> Tracked:
        surrogate = func(*replaced(args, at_mean), **replaced(kwargs, at_mean))
        with torch.no_grad():
            value = func(*replaced(args, plain), **replaced(kwargs, plain))
        return self.wrap(_At.apply(surrogate, value), self._at_baseline(func, args, kwargs))

    def _elementwise(self, func: Callable, base: str, args: tuple, kwargs: dict) -> Tracked:
        states, *rest = args if args else (kwargs.pop("input"),)

        def function(at: Tensor) -> Tensor:
            return func(at, *rest, **kwargs)

        with torch.no_grad():
            x, b = states.plain().detach(), states.other
            values = function(x), function(b)
            if base in EXACT_SLOPES:
                slope = EXACT_SLOPES[base](x, b)
            else:
                slope = secant_slope(function, x, b, values, smooth=base in SMOOTH)
        return self.wrap(_At.apply(states.plain() * slope, values[0]), values[1])

    def _softmax(self, func: Callable, args: tuple, kwargs: dict) -> Tracked:
        states = args[0]
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        with torch.no_grad():
            values = func(states.plain(), *args[1:], **kwargs), func(states.other, *args[1:], **kwargs)
            x, b = states.plain().detach().to(values[0].dtype), states.other.to(values[0].dtype)
            slopes, weights = softmax_multipliers(x, b, values, dim)
            weights = -weights
        run = states.plain().to(values[0].dtype)
        run = (run + (weights * run).sum(dim, keepdim=True)) * slopes
        return self.wrap(_At.apply(run, values[0]), values[1])

    def _norm(self, func: Callable, base: str, args: tuple, kwargs: dict) -> Tracked:
        states, shape, weight, eps = norm_arguments(base, args, kwargs)
        dims = tuple(range(-len(shape), 0))

        def center(run: Tensor) -> Tensor:
            # the sign is changed where it is cheap, in the mean and in its derivative
            return run + -run.mean(dims, keepdim=True) if base == "layer_norm" else run

        with torch.no_grad():
            value = func(*replaced(args, plain), **replaced(kwargs, plain))
            scale, middle, slope = norm_multipliers(center(states.plain()), center(states.other), dims, eps)
        run = center(states.plain())
        run = run * scale + middle * (slope * (middle * run).mean(dims, keepdim=True))
        run = run if weight is None else run * weight
        return self.wrap(_At.apply(run, value), self._at_baseline(func, args, kwargs))


def baseline(tensor: Tracked) -> Tensor:
    """Returns the tensor's value at the baseline."""
    return tensor.other


def at_mean(tensor: Tracked) -> Tensor:
    """Returns the mean of a tensor and its baseline, with the derivative of the tensor."""
    states = tensor.plain()
    return _At.apply(states, (states.detach() + tensor.other) / 2)
