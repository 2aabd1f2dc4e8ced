"""DeepLift's rescale rule, which replaces the derivatives in a network by multipliers of differences x - b.

x is the value of a tensor for the input, and b is the value of the same tensor for the baseline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lightning_xai.functional.propagation.function_arguments import attention_scores, norm_arguments, repeat_heads
from lightning_xai.functional.propagation.multipliers import (
    EXACT_SLOPES,
    KINKED,
    POWERS,
    SMOOTH,
    norm_multipliers,
    secant_slope,
    softmax_multipliers,
)
from lightning_xai.functional.propagation.tracked import (
    LINEAR,
    PRODUCTS,
    QUOTIENTS,
    WITHOUT_RULE,
    Rules,
    Tracked,
    plain,
    replace_tracked,
    writes_in_place,
)


class _SurrogateGradient(torch.autograd.Function):
    """Returns `value`. In the backward pass, the gradient of the result is passed on to `surrogate`."""

    @staticmethod
    def forward(ctx: Any, surrogate: Tensor, value: Tensor) -> Tensor:
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class Rescale(Rules):
    """Rules under which the derivative with respect to a tensor is DeepLift's multiplier.

    A tracked tensor holds its value x for the input; `second_run` holds its value b for the baseline. The multiplier m
    of a tensor satisfies sum(m * (x - b)) = output(x) - output(b) exactly. The multiplier of an elementwise function is
    its secant slope between b and x. In a product u v, the multiplier of u is the mean of v over input and baseline,
    and the multiplier of v is the mean of u. The rules of softmax, LayerNorm, RMSNorm and attention are derived from
    these two rules. A function without a rule raises a ValueError that names the function.

    Example:
        >>> from lightning_xai.functional.propagation.tracked import track
        >>> x, b = torch.tensor(3.0, requires_grad=True), torch.tensor(-1.0)
        >>> output = track(x, Rescale(), b).relu()
        >>> output.plain().backward()
        >>> x.grad  # (relu(3) - relu(-1)) / (3 - -1), where the ordinary derivative is 1
        tensor(0.7500)
    """

    def __call__(self, func: Callable, name: str, tracked: list[Tracked], args: tuple, kwargs: dict) -> Any:
        writes = writes_in_place(name, args, kwargs)
        base = name.removesuffix("_")
        factors = 1 if base in LINEAR else self._num_factors(base, tracked, args)
        if factors == 1 and (base in LINEAR | PRODUCTS or self._is_quotient(base, kwargs)):
            result = self._linear(func, args, kwargs)
            if not writes:
                return result
            args[0].second_run = result.second_run
            return args[0]
        if writes:
            raise ValueError(
                f"{name} writes a non-linear result into hidden states, and there is no rule for such a function: "
                f"{WITHOUT_RULE}"
            )
        return self._nonlinear(func, name, factors, args, kwargs)

    def _nonlinear(self, func: Callable, name: str, factors: int, args: tuple, kwargs: dict) -> Any:
        """Applies a function that is not linear in its tracked arguments, with multipliers as derivatives.

        A tracked argument has two values: one for the input and one for the baseline.

        Args:
            func: the function.
            name: name of the function.
            factors: if the function is a product, the number of its factors that are tracked.
            args: positional arguments.
            kwargs: keyword arguments.

        Raises:
            ValueError: there is no rule for the function.
        """
        if name in PRODUCTS and factors == 2:
            return self._product(func, args, kwargs)
        if self._is_quotient(name, kwargs):
            return args[0] * args[1].reciprocal()
        if name == "rdiv":
            return args[0].reciprocal() * args[1]
        base = name
        if name == "pow" and not isinstance(args[1], Tensor) and float(args[1]) in POWERS:
            base = POWERS[float(args[1])]
        if base in EXACT_SLOPES or base in SMOOTH or base in KINKED:
            return self._elementwise(func, base, args, kwargs)
        if name == "softmax":
            return self._softmax(func, args, kwargs)
        if name in ("layer_norm", "rms_norm"):
            return self._norm(func, name, args, kwargs)
        if name == "scaled_dot_product_attention" and not kwargs.get("dropout_p"):
            scores = attention_scores(*args, **kwargs)
            return scores.softmax(-1) @ repeat_heads(args[2], scores.shape[-3])
        if name == "dropout" and not kwargs.get("training", args[2] if len(args) > 2 else True):
            return args[0]
        raise ValueError(
            f"{name} has no DeepLift rule: there are rules for linear functions, products, quotients, softmax, "
            f"layer_norm, rms_norm, attention, the powers {', '.join(map(str, POWERS))}, "
            f"and the functions {', '.join(sorted(SMOOTH | KINKED))}; "
            f"{WITHOUT_RULE}"
        )

    @staticmethod
    def _num_factors(base: str, tracked: list[Tracked], args: tuple) -> int:
        """Returns how many factors of a product are tracked. The addend of addmm does not count as a factor.

        If only the addend is tracked, the result is 1, because addmm is linear in the addend.
        """
        addend = 1 if base == "addmm" and isinstance(args[0], Tracked) else 0
        return max(len(tracked) - addend, addend)

    @staticmethod
    def _is_quotient(base: str, kwargs: dict) -> bool:
        return base in QUOTIENTS and kwargs.get("rounding_mode") is None

    def _linear(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        result = func(*replace_tracked(args, plain), **replace_tracked(kwargs, plain))
        return self.wrap(result, self._at_baseline(func, args, kwargs))

    @staticmethod
    @torch.no_grad()
    def _at_baseline(func: Callable, args: tuple, kwargs: dict) -> Any:
        return func(*replace_tracked(args, baseline), **replace_tracked(kwargs, baseline))

    def _product(self, func: Callable, args: tuple, kwargs: dict) -> Tracked:
        surrogate = func(*replace_tracked(args, at_mean), **replace_tracked(kwargs, at_mean))
        with torch.no_grad():
            value = func(*replace_tracked(args, plain), **replace_tracked(kwargs, plain))
        return self.wrap(_SurrogateGradient.apply(surrogate, value), self._at_baseline(func, args, kwargs))

    def _elementwise(self, func: Callable, base: str, args: tuple, kwargs: dict) -> Tracked:
        states, *rest = args if args else (kwargs.pop("input"),)

        def function(at: Tensor) -> Tensor:
            return func(at, *rest, **kwargs)

        with torch.no_grad():
            x, b = states.plain().detach(), baseline(states)
            values = function(x), function(b)
            if base in EXACT_SLOPES:
                slope = EXACT_SLOPES[base](x, b)
            else:
                slope = secant_slope(function, x, b, values, smooth=base in SMOOTH)
        return self.wrap(_SurrogateGradient.apply(states.plain() * slope, values[0]), values[1])

    def _softmax(self, func: Callable, args: tuple, kwargs: dict) -> Tracked:
        states = args[0]
        dim: int = kwargs["dim"] if "dim" in kwargs else args[1]
        with torch.no_grad():
            values = func(states.plain(), *args[1:], **kwargs), func(baseline(states), *args[1:], **kwargs)
            x, b = states.plain().detach().to(values[0].dtype), baseline(states).to(values[0].dtype)
            slopes, weights = softmax_multipliers(x, b, values, dim)
            weights = -weights
        surrogate = states.plain().to(values[0].dtype)
        surrogate = (surrogate + (weights * surrogate).sum(dim, keepdim=True)) * slopes
        return self.wrap(_SurrogateGradient.apply(surrogate, values[0]), values[1])

    def _norm(self, func: Callable, base: str, args: tuple, kwargs: dict) -> Tracked:
        states, shape, weight, eps = norm_arguments(base, args, kwargs)
        dims = tuple(range(-len(shape), 0))

        def center(values: Tensor) -> Tensor:
            # negates the small mean for speed: the backward pass of values - mean negates a gradient of `values`' size
            return values + -values.mean(dims, keepdim=True) if base == "layer_norm" else values

        with torch.no_grad():
            value = func(*replace_tracked(args, plain), **replace_tracked(kwargs, plain))
            scale, middle, slope = norm_multipliers(center(states.plain()), center(baseline(states)), dims, eps)
        surrogate = center(states.plain())
        surrogate = surrogate * scale + middle * (slope * (middle * surrogate).mean(dims, keepdim=True))
        surrogate = surrogate if weight is None else surrogate * weight
        return self.wrap(_SurrogateGradient.apply(surrogate, value), self._at_baseline(func, args, kwargs))


def baseline(tensor: Tracked) -> Tensor:
    """Returns the tensor's value for the baseline.

    Example:
        >>> from lightning_xai.functional.propagation.tracked import track
        >>> baseline(track(torch.tensor(3.0), Rescale(), torch.tensor(-1.0)))
        tensor(-1.)
    """
    assert tensor.second_run is not None, "Rescale tracks every tensor together with its baseline"
    return tensor.second_run


def at_mean(tensor: Tracked) -> Tensor:
    """Returns the mean of a tensor's values for the input and for the baseline.

    In the backward pass, the tensor gets the gradient of the mean unchanged (with the factor 1, not 1/2).

    Example:
        >>> from lightning_xai.functional.propagation.tracked import track
        >>> at_mean(track(torch.tensor(3.0), Rescale(), torch.tensor(-1.0)))
        tensor(1.)
    """
    states = tensor.plain()
    return _SurrogateGradient.apply(states, (states.detach() + baseline(tensor)) / 2)
