"""Attention as a linear map of the value vectors, with constant queries and keys; and the transpose of this map.

Neither the map nor its transpose stores all attention probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.functional.propagation.function_arguments import attention_scores

# largest number of attention probabilities computed at once: as many as fit in the cache of a CPU, or keep a GPU busy
_BLOCK = {"cpu": 2**19, "cuda": 2**26}


class FrozenAttention:
    """F.scaled_dot_product_attention as a linear map of the value vectors, with constant queries and keys.

    Derivatives of any order with respect to the values are exact. No T x T matrix is kept after a call.

    Args:
        query: [..., H, T, d], the queries.
        key: [..., heads, T, d], the keys. `heads` may be less than H if `options` contains `enable_gqa`.
        options: other arguments of F.scaled_dot_product_attention; dropout must be 0.

    Example:
        >>> query, key, values = torch.randn(3, 1, 2, 4, 2)
        >>> attention = FrozenAttention(query, key, {})
        >>> torch.allclose(attention(3 * values), 3 * attention(values), atol=1e-5)
        True
        >>> torch.allclose(attention(values), F.scaled_dot_product_attention(query, key, values), atol=1e-5)
        True
    """

    def __init__(self, query: Tensor, key: Tensor, options: dict[str, Any]) -> None:
        self.query, self.key, self.options = query.detach(), key.detach(), options

    def __call__(self, values: Tensor) -> Tensor:
        """Returns attention @ values [..., H, T, d], for `values` [..., heads, T, d] with `heads` as in `key`."""
        return _Mix.apply(values, self, False)

    def mix(self, values: Tensor) -> Tensor:
        """Returns attention @ values, with shape [..., H, T, w].

        Args:
            values: [..., heads, T, w], with `heads` as in `key`. w is a multiple of d.
        """
        # fused kernels accept values only if they have the width d of the keys
        parts = values.split(self.key.shape[-1], dim=-1)
        return torch.cat(
            [F.scaled_dot_product_attention(self.query, self.key, part, **self.options) for part in parts], dim=-1
        )

    def mix_back(self, states: Tensor) -> Tensor:
        """Returns attention.T @ states, summed over the query heads that share a key head.

        `states` has the shape [..., H, T, w], and the result the shape [..., heads, T, w], with `heads` as in `key`.
        """
        mixed = states.new_zeros(*states.shape[:-2], self.key.shape[-2], states.shape[-1], dtype=self._precision)
        by_head = mixed.flatten(0, -3)
        for rows, probabilities in self._probabilities():
            by_head.baddbmm_(probabilities.flatten(0, -3).mT, states[..., rows, :].flatten(0, -3).to(mixed.dtype))
        heads = self.key.shape[-3]
        return mixed.unflatten(-3, (heads, -1)).sum(-3).to(states.dtype)

    @property
    def _precision(self) -> torch.dtype:
        return torch.promote_types(self.query.dtype, torch.float32)  # precise enough for long sums

    def _probabilities(self) -> Iterator[tuple[slice, Tensor]]:
        """Yields slices of b queries, each together with the attention probabilities [..., H, b, T] of its queries."""
        query, key = self.query.to(self._precision), self.key.to(self._precision)
        most = _BLOCK.get(query.device.type, _BLOCK["cuda"])
        size = max(most // max(query.shape[:-2].numel() * key.shape[-2], 1), 1)
        for first in range(0, query.shape[-2], size):
            rows = slice(first, first + size)
            yield rows, attention_scores(query, key, rows=rows, **self.options).softmax(-1)


class _Mix(torch.autograd.Function):
    """Calls `attention.mix_back` if `back` is True, else `attention.mix`. Each is the backward pass of the other."""

    @staticmethod
    def forward(states: Tensor, attention: FrozenAttention, back: bool) -> Tensor:
        return attention.mix_back(states) if back else attention.mix(states)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, FrozenAttention, bool], output: Tensor) -> None:
        _, ctx.attention, ctx.back = inputs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _Mix.apply(gradient, ctx.attention, not ctx.back), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, states: Tensor, attention: FrozenAttention, back: bool) -> tuple[Tensor, int]:
        states = states.movedim(in_dims[0], -2)  # one matrix product computes the gradients of all classes
        mixed = _Mix.apply(states.flatten(-2), attention, back)
        return mixed.unflatten(-1, states.shape[-2:]), mixed.dim() - 1
