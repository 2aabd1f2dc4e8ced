"""A transformer layer that is linear in its input, because its statistics, slopes and attention are frozen.

Letters: R target rows (the T tokens of one text or segment, or the few whose state is read), S sources, c sources of
one chunk, F feed-forward units. A chunk [R, c, D] has, for each target, the vectors of some sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lightning_xai.functional.decomposition.bias_shares import BiasShares
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, LayerTrace
from lightning_xai.functional.decomposition.frozen_activation import linearize

FeedForward = Literal["zero_origin", "local_affine", "relu", "none"]
Visit = Callable[[str, Tensor], Tensor]  # (place where a bias enters, vectors there) -> vectors to go on with


def _times(fresh: Tensor, factor: Tensor) -> Tensor:
    """Returns the product, in the memory of `fresh` where no graph needs its values, like the next two functions."""
    return fresh * factor if torch.is_grad_enabled() else fresh.mul_(factor)


def _minus(fresh: Tensor, other: Tensor) -> Tensor:
    return fresh - other if torch.is_grad_enabled() else fresh.sub_(other)


def _plus(fresh: Tensor, other: Tensor) -> Tensor:
    return fresh + other if torch.is_grad_enabled() else fresh.add_(other)


@dataclass(frozen=True)
class FrozenNorm:
    """A LayerNorm or RMSNorm as the linear map that it is for given statistics, without its bias."""

    rate: Tensor  # [R, 1, 1] 1 / true standard deviation or root mean square
    weight: Tensor  # [D]
    centered: bool
    bias: Tensor | None  # [D]

    def __call__(self, vectors: Tensor, *, fresh: bool = False) -> Tensor:
        """Returns the normalized vectors [R, c, D]; each is centered by its own mean.

        Args:
            fresh: nothing else needs the vectors, so their memory may be used.
        """
        return self._scaled(vectors, self.rate * self.weight, fresh=fresh)

    def without_rate(self, vectors: Tensor) -> Tensor:
        """Returns what the norm makes of vectors [..., D] but for the factor that depends on the target."""
        return self._scaled(vectors, self.weight, fresh=False)

    def _scaled(self, vectors: Tensor, scale: Tensor, *, fresh: bool) -> Tensor:
        if self.centered:
            mean = vectors.mean(dim=-1, keepdim=True)
            vectors, fresh = _minus(vectors, mean) if fresh else vectors - mean, True
        return _times(vectors, scale) if fresh else vectors * scale


def freeze_norm(norm: nn.Module, states: Tensor) -> FrozenNorm:
    """Returns `norm` with the statistics of `states` [R, D].

    Raises:
        ValueError: it is neither a LayerNorm nor an RMSNorm.
    """
    if isinstance(norm, nn.LayerNorm):
        variance = states.var(dim=-1, unbiased=False, keepdim=True)
        weight = states.new_ones(states.shape[-1]) if norm.weight is None else norm.weight
        return FrozenNorm((variance + norm.eps).rsqrt().unsqueeze(1), weight, True, norm.bias)
    if not hasattr(norm, "variance_epsilon"):
        raise ValueError(
            f"{type(norm).__name__} is neither a LayerNorm nor an RMSNorm with variance_epsilon: it cannot be frozen; "
            "choose a gradient or perturbation method"
        )
    square = states.square().mean(dim=-1, keepdim=True)
    return FrozenNorm((square + norm.variance_epsilon).rsqrt().unsqueeze(1), norm.weight, False, None)


@dataclass(frozen=True)
class FrozenLayer:
    """A transformer layer, for some of its targets, that is linear in its input: statistics and slopes are true ones.

    The attention probabilities, the norms' standard deviations, the slopes of the activation and, where the
    feed-forward block has a gate, activation(gate) are constants.
    """

    parts: EncoderLayer
    hidden: Tensor  # [T, D] the layer's true input
    attention: Tensor  # [H, R, T]
    values: Tensor  # [H, T, head size], with their bias
    rows: Tensor  # [R] places of the targets among the T tokens
    attention_norm: FrozenNorm
    feed_forward_norm: FrozenNorm
    slope: Tensor | None  # [R, 1, F], None leaves the feed-forward block out
    biases: dict[str, Tensor]  # place -> [dim] or [R, dim], in the order in which `after_attention` meets them
    scratch: Tensor | None = None  # flat, for the units of one chunk at a time; None takes new memory for each

    @property
    def reads_few_rows(self) -> bool:
        """Whether mixing tokens before projecting them leaves less to project."""
        num_heads, num_rows, _ = self.attention.shape
        return num_rows * num_heads < self.hidden.shape[-1]

    def attend(self, vectors: Tensor) -> tuple[Tensor, None]:
        """Returns input + attention [R, c, D] of the vectors [T, c, D] of some sources at every token, without bias.

        Without a graph this takes the vectors' memory, so that of all sources only one set is held.
        """
        parts, (num_heads, num_rows, num_tokens), count = self.parts, self.attention.shape, vectors.shape[1]
        kept = vectors if num_rows == num_tokens else vectors[self.rows]
        inputs = self.attention_norm(vectors) if parts.norm_first else vectors
        if self.reads_few_rows:
            mixed = self.attention.flatten(0, 1) @ inputs.flatten(1)
            return self.attend_to_mixed(torch.cat([mixed.view(-1, count, inputs.shape[-1]), kept]))
        values = F.linear(inputs, parts.value.weight).unflatten(-1, (-1, parts.head_size))
        values = values.permute(2, 0, 1, 3).flatten(2)  # [value heads, T, c * head size]
        shared = num_heads // len(values)
        mixed = self.attention.view(len(values), shared * num_rows, num_tokens) @ values
        return self._output(mixed.view(num_heads, num_rows, count, parts.head_size), kept), None

    def attend_to_mixed(self, mixed: Tensor) -> tuple[Tensor, None]:
        """Returns what `attend` does, from vectors [H * R + R, c, D] mixed by every head and row, and the rows' own.

        Without a graph this takes the memory of the rows' own.
        """
        (num_heads, num_rows, _), count = self.attention.shape, mixed.shape[1]
        mixed, kept = mixed.split([num_heads * num_rows, num_rows])
        weight = self.parts.value.weight.unflatten(0, (-1, self.parts.head_size))  # [value heads, head size, D]
        values = mixed.reshape(len(weight), -1, mixed.shape[-1]) @ weight.transpose(1, 2)
        return self._output(values.view(num_heads, num_rows, count, weight.shape[1]), kept), None

    def _output(self, values: Tensor, kept: Tensor) -> Tensor:
        """Returns [R, c, D]: what the output map makes of values [H, R, c, head size] mixed by heads, plus `kept`."""
        rows = values.permute(1, 2, 0, 3).flatten(2).flatten(0, 1)
        add_product = torch.addmm if torch.is_grad_enabled() else Tensor.addmm_
        return add_product(kept.view(-1, kept.shape[-1]), rows, self.parts.output.weight.T).view(kept.shape)

    def attend_to_tokens(self, sources: slice) -> tuple[Tensor, Tensor | None]:
        """Returns input + attention [R, c, D] of the first layer, and the feed-forward units [R, c, F] that follow.

        The sources are the tokens themselves, each at its own place only. So nothing is summed over tokens, the bias of
        a value stays with its token, and whatever the target, the vectors of a source are sums of the same H + 1: its
        values as every head passes them on, and itself. These few go through the maps that come next.
        """
        parts = self.parts
        own = torch.arange(self.hidden.shape[0], device=self.rows.device)[sources].view(-1, 1, 1) == self.rows.view(
            -1, 1
        )
        weights = self.attention[:, :, sources].permute(2, 1, 0)
        weights = torch.cat([weights, own.to(weights.dtype)], dim=-1)  # [c, R, H + 1]
        passed = self.values[:, sources] @ parts.output.weight.T.unflatten(0, (parts.num_heads, -1))
        passed = torch.cat([passed.transpose(0, 1), self.hidden[sources].unsqueeze(1)], dim=1)  # [c, H + 1, D]
        vectors = (weights @ passed).transpose(0, 1).contiguous()
        if self.slope is None:
            return vectors, None
        norm = self.feed_forward_norm if parts.norm_first else self.attention_norm
        units = (weights * norm.rate.squeeze(1)) @ F.linear(norm.without_rate(passed), parts.up.weight)
        return vectors, units.transpose(0, 1).contiguous()

    def after_attention(self, vectors: Tensor, visit: Visit, units: Tensor | None = None) -> Tensor:
        """Returns what input + attention [R, c, D] becomes in the rest of the layer; `visit` is told of every bias.

        Without a graph this takes the memory of vectors and units.

        Args:
            units: [R, c, F], what `up` makes of the vectors, if it is known.
        """
        parts = self.parts
        block, units = self._until_down(vectors, visit, units)
        if self.slope is not None:
            added = visit("down", F.linear(units, parts.down.weight))
            if added.shape != block.shape:  # biases have entered
                block = F.pad(block, (0, 0, 0, added.shape[1] - block.shape[1]))
            block = _plus(block, added)
        if not parts.norm_first:
            block = visit("feed_forward_norm", self.feed_forward_norm(block, fresh=True))
        return block

    def read_after_attention(
        self, vectors: Tensor, shares: BiasShares, units: Tensor | None, weights: Tensor
    ) -> Tensor:
        """Returns weights [W, R] @ `after_attention` as [W, c, D], where few rows are read of a post-norm layer.

        Targets are mixed before the down-projection, which then has W rows instead of R. Products with the biases that
        enter after it are taken through the transposed maps. Without a graph the memory of vectors and units is taken.
        """
        block, units = self._until_down(vectors, shares.record, units)
        norm, down = self.feed_forward_norm, self.parts.down.weight
        if "down" in self.biases:
            shares.keep("down", units @ (self.biases["down"] @ down))
        if norm.bias is not None:
            scaled = norm.weight * norm.bias
            scaled = scaled - scaled.mean() if norm.centered else scaled
            product = block @ scaled + units @ (scaled @ down)  # [R, c]
            shares.keep("feed_forward_norm", product * norm.rate.squeeze(-1))
        weights = weights * norm.rate.flatten()
        mixed = [(weights @ part.flatten(1)).view(len(weights), *part.shape[1:]) for part in (block, units)]
        return norm.without_rate(mixed[0] + F.linear(mixed[1], down))

    def _until_down(self, vectors: Tensor, visit: Visit, units: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns the feed-forward block's residual [R, c, D] and its units [R, c, F] after the activation."""
        parts = self.parts
        block = visit("attention", vectors)
        if not parts.norm_first:
            block = visit("attention_norm", self.attention_norm(block, fresh=True))
        if self.slope is None:
            return block, None
        inputs = visit("feed_forward_norm", self.feed_forward_norm(block)) if parts.norm_first else block
        units = visit("up", self._up(inputs) if units is None else units)
        return block, visit("activation", _times(units, self.slope))

    def _up(self, inputs: Tensor) -> Tensor:
        """Returns the units [R, c, F] of inputs [R, c, D], in the scratch memory if they fit."""
        weight = self.parts.up.weight
        size = inputs.shape[:2].numel() * len(weight)
        if self.scratch is None or size > len(self.scratch):
            return F.linear(inputs, weight)
        # memory that the system hands out anew costs as much as half of the product, page by page
        units = self.scratch[:size].view(-1, len(weight))
        return torch.mm(inputs.flatten(0, 1), weight.T, out=units).view(*inputs.shape[:2], len(weight))


def freeze_layer(
    parts: EncoderLayer,
    trace: LayerTrace,
    rows: Tensor,
    *,
    is_first: bool,
    feed_forward: FeedForward,
    scratch: Tensor | None = None,
) -> FrozenLayer:
    """Returns the layer frozen at a trace of one text or segment (M = 1, no padding) for the targets `rows` [R].

    Args:
        is_first: the bias of the values then belongs to the tokens that have them, and is not handed out.
        scratch: see FrozenLayer; for use without a graph only.

    Raises:
        ValueError: the norm before attention has a bias, or a gated layer is to be approximated otherwise than by its
            own gate.
    """
    before = trace.hidden[0] if parts.norm_first else trace.attention_sum[0, rows]
    attention_norm = freeze_norm(parts.attention_norm, before)
    after = trace.attention_block if parts.norm_first else trace.feed_forward_sum
    feed_forward_norm = freeze_norm(parts.feed_forward_norm, after[0, rows])
    if parts.norm_first and attention_norm.bias is not None:
        raise ValueError("the norm before attention has a bias, which cannot be decomposed: choose another method")
    biases = {"attention": _attention_bias(parts, is_first=is_first), "attention_norm": attention_norm.bias}
    if parts.norm_first:
        biases["feed_forward_norm"] = feed_forward_norm.bias
    slope = None
    if feed_forward != "none":
        preactivation = trace.preactivation[0, rows]
        if parts.gate is not None:
            if feed_forward != "zero_origin":
                raise ValueError(f"feed_forward is {feed_forward!r}: gated layers take 'zero_origin' or 'none'")
            slope, intercept = parts.activation(preactivation), None
        else:
            slope, intercept = linearize(parts.activation, preactivation, feed_forward)
        biases |= {"up": parts.up.bias, "activation": intercept, "down": parts.down.bias}
        slope = slope.unsqueeze(1)
    if not parts.norm_first:
        biases["feed_forward_norm"] = feed_forward_norm.bias
    return FrozenLayer(
        parts=parts,
        hidden=trace.hidden[0],
        attention=trace.attention[0][:, rows],
        values=trace.values[0],
        rows=rows,
        attention_norm=attention_norm,
        feed_forward_norm=feed_forward_norm,
        slope=slope,
        biases={place: bias for place, bias in biases.items() if bias is not None},
        scratch=scratch,
    )


def _attention_bias(parts: EncoderLayer, *, is_first: bool) -> Tensor | None:
    """Returns the bias [D] of attention; rows of attention sum to 1, so that of the values passes it unchanged."""
    bias = parts.output.bias
    if is_first or parts.value.bias is None:
        return bias
    heads = parts.value.bias.view(-1, parts.head_size)
    passed = F.linear(heads.repeat_interleave(parts.num_heads // len(heads), dim=0).flatten(), parts.output.weight)
    return passed if bias is None else passed + bias
