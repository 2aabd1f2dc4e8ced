"""Rules that make a network linear in its hidden states: whatever multiplies a state is held constant."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.functional.propagation.frozen_attention import FrozenAttention
from lightning_xai.functional.propagation.function_arguments import attention_scores, norm_arguments, repeat_heads
from lightning_xai.functional.propagation.tracked import (
    ELEMENTWISE_LINEAR,
    LINEAR,
    PRODUCTS,
    QUOTIENTS,
    STRUCTURAL,
    WITHOUT_RULE,
    Rules,
    Tracked,
    plain,
    replace_tracked,
    writes_in_place,
)

# activations with activation(0) = 0, so that activation(z) = z * slope with a finite slope
ACTIVATIONS = frozenset(
    "celu elu gelu hardswish hardtanh leaky_relu mish relu relu6 selu silu softsign tanh tanhshrink".split()
)
# if one of these functions is applied to a gate (an activation's output, see `Tracked.is_gate`), the result is a gate
_KEEP_GATES = STRUCTURAL | ELEMENTWISE_LINEAR | {"mul", "multiply"} | QUOTIENTS


def activation_slope(activation: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
    """Returns activation(z) / z for states z. At z = 0, returns the derivative, which is the limit of this quotient.

    Example:
        >>> activation_slope(torch.relu, torch.tensor([-2.0, 3.0]))
        tensor([-0., 1.])
        >>> activation_slope(torch.tanh, torch.tensor([0.0]))
        tensor([1.])
    """
    with torch.enable_grad():
        zero = states.new_zeros(1, requires_grad=True)
        limit = torch.autograd.grad(activation(zero).sum(), zero)[0]
    if not torch.is_grad_enabled():
        # divides first, and then replaces the NaN of 0 / 0. This takes half as many passes over memory as the last two
        # lines of this function. These are for use with gradients: they never divide 0 by 0, whose gradient is NaN
        slope = activation(states).div_(states)
        return slope.nan_to_num_(float(limit), math.inf, -math.inf)
    is_zero = states == 0
    return torch.where(is_zero, limit, activation(states) / states.masked_fill(is_zero, 1.0))


def _gate(base: str, linear: list[Tracked]) -> Tracked | None:
    """Returns the gate if a function multiplies a gate by another linear tensor, as in SwiGLU; otherwise, None."""
    if base not in ("mul", "multiply") or len(linear) != 2 or linear[0].is_gate == linear[1].is_gate:
        return None
    return linear[0] if linear[0].is_gate else linear[1]


def _is_linear(base: str, tracked: list[Tracked], linear: list[Tracked], args: tuple) -> bool:
    """Returns whether the result of a function is linear in the states.

    `tracked` holds the arguments that depend on the states. `linear` holds the arguments that are linear in the states.
    """
    # addmm adds its first argument to a product. If two arguments depend on the states, the first argument may be one
    # of them and non-linear in the states, so the result counts as linear only if one argument depends on the states
    if base == "addmm":
        return len(tracked) == 1
    if base in PRODUCTS:
        return len(linear) == 1
    if base in QUOTIENTS:
        return len(linear) == 1 and args[0] is linear[0]
    return len(linear) == len(tracked)


class FrozenCoefficients(Rules):
    """Rules that make a network linear in its hidden states: whatever multiplies a state is held constant.

    These constants, called coefficients, keep their values from a forward pass. They are the attention probabilities,
    the 1 / std of norms, activation(z) / z, and the activated factor of a gated unit. Tensors that are not linear in
    the states, such as attention scores or squares, may pass through any function and may become coefficients. If the
    network's output is such a tensor, `linear` raises a ValueError.

    A tracked tensor, which is a tensor that depends on the states, holds its value in this forward pass, the first run.
    At the same time, a second run can be computed from other states, for example zeros, but with the coefficients of
    the first run. The attribute `second_run` of a tracked tensor holds the tensor's value in the second run.

    Args:
        detached: if True, derivatives treat coefficients as constants. If False, the coefficients depend on the states
            of the first run, so take derivatives with respect to the states of the second run.

    Example:
        >>> from lightning_xai.functional.propagation.tracked import track
        >>> x, rules = torch.tensor([1.0, 2.0], requires_grad=True), FrozenCoefficients(detached=True)
        >>> output = track(x, rules).tanh().sum()
        >>> rules.linear(output).backward()
        >>> torch.allclose((x * x.grad).sum(), x.tanh().sum())  # a linear function equals states times derivative
        True
    """

    def __init__(self, *, detached: bool) -> None:
        self.detached = detached

    def __call__(self, func: Callable, name: str, tracked: list[Tracked], args: tuple, kwargs: dict) -> Any:
        writes = writes_in_place(name, args, kwargs)
        linear = [tensor for tensor in tracked if tensor.nonlinear_function is None]
        base = name.removesuffix("_")
        if not linear:
            return self._coefficient(func, name, tracked, args, kwargs)
        if base in LINEAR | PRODUCTS | QUOTIENTS:
            gate = _gate(base, linear)
            if gate is not None or _is_linear(base, tracked, linear, args):
                result = self._linear(func, tracked, args, kwargs, gate)
                if isinstance(result, Tracked):
                    result.is_gate = len(tracked) == 1 and linear[0].is_gate and base in _KEEP_GATES
                if not writes:
                    return result
                args[0].second_run, args[0].is_gate = result.second_run, result.is_gate
                return args[0]
        if writes:
            raise ValueError(
                f"{name} writes a non-linear result into hidden states, and there is no rule for such a function: "
                f"{WITHOUT_RULE}"
            )
        if base in ACTIVATIONS:
            return self._activation(func, args, kwargs)
        if base in ("layer_norm", "rms_norm"):
            return self._norm(name, args, kwargs)
        if base == "scaled_dot_product_attention" and any(args[2] is tensor for tensor in linear):
            return self._attention(args, kwargs)
        if base == "dropout":
            return self._dropout(*args, **kwargs)
        return self._coefficient(func, name, tracked, args, kwargs)

    def linear(self, result: Tensor) -> Tensor:
        """Returns the value of `result` as a linear function of the states, with its autograd graph.

        If there is a second run (see the class), value and graph are those of the second run. Otherwise, they are those
        of the forward pass.

        Raises:
            ValueError: `result` is not a linear function of the states; the message names the non-linear function.
        """
        if not isinstance(result, Tracked):
            raise ValueError("the logits do not depend on the first layer's input: choose another method")
        if result.nonlinear_function is not None:
            raise ValueError(
                f"{result.nonlinear_function} has no linear rule, and the logits depend on its result: {WITHOUT_RULE}"
            )
        return result.plain() if result.second_run is None else result.second_run

    def _frozen(self) -> AbstractContextManager:
        return torch.no_grad() if self.detached else nullcontext()

    def _linear(self, func: Callable, tracked: list[Tracked], args: tuple, kwargs: dict, gate: Tracked | None) -> Any:
        """Applies a function that is linear in its tracked arguments, the arguments that depend on the states.

        `gate` (if it is not None) and arguments that are not linear in the states serve as coefficients, which are held
        constant.
        """

        def value(tensor: Tracked) -> Tensor:
            return tensor.plain().detach() if tensor is gate and self.detached else tensor.plain()

        def state(tensor: Tracked) -> Tensor:
            return value(tensor) if tensor is gate or tensor.second_run is None else tensor.second_run

        result = func(*replace_tracked(args, value), **replace_tracked(kwargs, value))
        if all(tensor.second_run is None for tensor in tracked):
            return self.wrap(result)
        return self.wrap(result, func(*replace_tracked(args, state), **replace_tracked(kwargs, state)))

    def _coefficient(self, func: Callable, name: str, tracked: list[Tracked], args: tuple, kwargs: dict) -> Any:
        """Applies a function whose result is not linear in the states. The result may later become a coefficient."""
        with self._frozen():
            result = func(*replace_tracked(args, plain), **replace_tracked(kwargs, plain))
        if writes_in_place(name, args, kwargs):
            return args[0]
        earlier = (tensor.nonlinear_function for tensor in tracked if tensor.nonlinear_function is not None)
        return self.wrap(result, nonlinear_function=next(earlier, name))

    def _scaled(self, states: Tracked, coefficient: Tensor, **marks) -> Tracked:
        second_run = None if states.second_run is None else states.second_run * coefficient
        return self.wrap(states.plain() * coefficient, second_run, **marks)

    def _activation(self, func: Callable, args: tuple, kwargs: dict) -> Tracked:
        states = args[0] if args else kwargs.pop("input")
        with self._frozen():
            slope = activation_slope(lambda at: func(at, *args[1:], **kwargs), states.plain())
        return self._scaled(states, slope, is_gate=True)

    def _dropout(self, input: Tracked, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tracked:
        if not training or p == 0:
            return input
        # `_scaled` applies this one dropout mask to both runs
        return self._scaled(input, F.dropout(torch.ones_like(input.plain()), p))

    def _norm(self, name: str, args: tuple, kwargs: dict) -> Tracked:
        states, shape, weight, eps = norm_arguments(name, args, kwargs)
        dims = tuple(range(-len(shape), 0))
        bias = kwargs.get("bias", args[3] if len(args) > 3 else None) if name == "layer_norm" else None

        def center(values: Tensor) -> Tensor:
            # uses a sum, because the derivative of a mean or of a difference takes one more pass over memory
            return values + values.sum(dims, keepdim=True) * (-1 / math.prod(shape)) if name == "layer_norm" else values

        with self._frozen():
            scale = (center(states.plain()).square().mean(dims, keepdim=True) + eps).rsqrt()
        scale = scale if weight is None else scale * weight

        def normalize(values: Tensor) -> Tensor:
            return center(values) * scale if bias is None else torch.addcmul(bias, center(values), scale)

        second_run = None if states.second_run is None else normalize(states.second_run)
        return self.wrap(normalize(states.plain()), second_run)

    def _attention(self, args: tuple, kwargs: dict) -> Tracked:
        query, key, value = args[:3]
        options = dict(zip(("attn_mask", "dropout_p", "is_causal"), args[3:], strict=False)) | kwargs
        query, key, options = replace_tracked((query, key, options), plain)
        dropout = options.get("dropout_p", 0.0)
        mix: Callable[[Tensor], Tensor]
        if self.detached and not dropout:
            mix = FrozenAttention(query, key, options)
        else:
            with self._frozen():
                attention = F.dropout(attention_scores(query, key, **options).softmax(-1), dropout)
            mix = partial(_mix_heads, attention)
        return self.wrap(mix(value.plain()), None if value.second_run is None else mix(value.second_run))


def _mix_heads(attention: Tensor, values: Tensor) -> Tensor:
    """Returns attention @ values. Several query heads may share a value head.

    `attention` has shape [..., H, T, T] for H query heads, `values` has shape [..., G, T, d] for G value heads, and the
    result has shape [..., H, T, d].
    """
    return attention @ repeat_heads(values, attention.shape[-3])
