"""LayerNorm and RMSNorm as linear maps, in which standard deviations and root mean squares are constants.

With gradients off, `subtract_from`, `add_to` and `multiply_by` write the result into their first argument.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


def multiply_by(temporary: Tensor, factor: Tensor) -> Tensor:
    """Returns `temporary` * `factor`. With gradients off, the product is written into `temporary`.

    Example:
        >>> temporary = torch.tensor([2.0])
        >>> with torch.no_grad():
        ...     multiply_by(temporary, torch.tensor(3.0)) is temporary, temporary.tolist()
        (True, [6.0])
    """
    return temporary * factor if torch.is_grad_enabled() else temporary.mul_(factor)


def subtract_from(temporary: Tensor, subtrahend: Tensor) -> Tensor:
    """Returns `temporary` - `subtrahend`. With gradients off, the difference is written into `temporary`.

    Example:
        >>> subtract_from(torch.tensor([2.0]), torch.tensor(3.0))
        tensor([-1.])
    """
    return temporary - subtrahend if torch.is_grad_enabled() else temporary.sub_(subtrahend)


def add_to(temporary: Tensor, addend: Tensor) -> Tensor:
    """Returns `temporary` + `addend`. With gradients off, the sum is written into `temporary`.

    Example:
        >>> add_to(torch.tensor([2.0]), torch.tensor(3.0))
        tensor([5.])
    """
    return temporary + addend if torch.is_grad_enabled() else temporary.add_(addend)


@dataclass(frozen=True)
class FrozenNorm:
    """A LayerNorm or RMSNorm as a linear map, which divides by a constant and does not add the norm's bias.

    Example:
        >>> norm = FrozenNorm(torch.tensor([[[0.5]]]), torch.tensor([1.0, 10.0]), centered=True, bias=None)
        >>> norm(torch.tensor([[[1.0, 5.0]]])).tolist()  # ((1 - 3) / 2 * 1, (5 - 3) / 2 * 10)
        [[[-1.0, 10.0]]]
    """

    rate: Tensor  # [R, 1, 1], 1 / (standard deviation of each target's state); for RMSNorm, 1 / (root mean square)
    weight: Tensor  # [D]
    centered: bool  # True for LayerNorm, which subtracts each vector's mean
    bias: Tensor | None  # [D]; the linear map does not add this bias

    def __call__(self, vectors: Tensor, *, in_place: bool = False) -> Tensor:
        """Returns the normalized vectors [R, c, D] of c sources for R targets. A LayerNorm centers every vector.

        Args:
            vectors: [R, c, D].
            in_place: whether the result may overwrite `vectors` if gradients are off.
        """
        return self._scaled(vectors, self.rate * self.weight, in_place=in_place)

    def without_rate(self, vectors: Tensor) -> Tensor:
        """Applies the map to vectors [..., D], except for the factor `rate`, which differs between targets."""
        return self._scaled(vectors, self.weight, in_place=False)

    def _scaled(self, vectors: Tensor, scale: Tensor, *, in_place: bool) -> Tensor:
        if self.centered:
            mean = vectors.mean(dim=-1, keepdim=True)
            vectors, in_place = subtract_from(vectors, mean) if in_place else vectors - mean, True
        return multiply_by(vectors, scale) if in_place else vectors * scale


def freeze_norm(norm: nn.Module, states: Tensor) -> FrozenNorm:
    """Returns `norm` as a linear map that divides by the standard deviations of `states` [R, D].

    For an RMSNorm, the map divides by the root mean squares of `states` instead.

    Raises:
        ValueError: `norm` is neither a LayerNorm nor an RMSNorm.

    Example:
        >>> states = torch.tensor([[1.0, 3.0]])
        >>> frozen = freeze_norm(nn.LayerNorm(2, eps=0.0), states)  # mean 2, deviation 1
        >>> frozen(states.unsqueeze(1)).tolist(), frozen(10 * states.unsqueeze(1)).tolist()
        ([[[-1.0, 1.0]]], [[[-10.0, 10.0]]])
    """
    if isinstance(norm, nn.LayerNorm):
        variance = states.var(dim=-1, unbiased=False, keepdim=True)
        weight = states.new_ones(states.shape[-1]) if norm.weight is None else norm.weight
        return FrozenNorm((variance + norm.eps).rsqrt().unsqueeze(1), weight, True, norm.bias)
    epsilon, rms_weight = getattr(norm, "variance_epsilon", None), getattr(norm, "weight", None)
    if epsilon is None or rms_weight is None:
        raise ValueError(
            f"{type(norm).__name__} is neither a LayerNorm nor an RMSNorm with the attribute variance_epsilon, so it "
            "cannot be made linear: choose a gradient or perturbation method"
        )
    square = states.square().mean(dim=-1, keepdim=True)
    return FrozenNorm((square + epsilon).rsqrt().unsqueeze(1), rms_weight, False, None)
