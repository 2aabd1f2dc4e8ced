"""The roles of a transformer layer's parts, and what flows through one layer, for methods that decompose it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lightning_xai.types import ClassifierOutput

_TOLERANCE = 1e-3  # of the largest value: a layer of another form misses by orders more, float32 by orders less
_ROUNDINGS = 4  # of the dtype, where they are more, as in bfloat16


@dataclass(frozen=True)
class EncoderLayer:
    """What each part of a transformer layer does, whatever the architecture calls it.

    With `norm_first` False (BERT): a = attention_norm(x + output(mix(value(x)))) and
    y = feed_forward_norm(a + down(activation(up(a)))).
    With `norm_first` True (Llama): a = x + output(mix(value(attention_norm(x)))), n = feed_forward_norm(a) and
    y = a + down(activation(up(n))), or y = a + down(activation(gate(n)) * up(n)) where there is a gate.
    """

    module: nn.Module  # the layer itself; it is called with the hidden state [B*N, S, D] first
    value: nn.Linear  # D -> value heads * head size
    output: nn.Linear  # H * head size -> D
    attention_norm: nn.Module  # LayerNorm, or RMSNorm (a weight, no bias)
    up: nn.Linear
    activation: Callable[[Tensor], Tensor]
    down: nn.Linear
    feed_forward_norm: nn.Module
    num_heads: int
    gate: nn.Linear | None = None
    norm_first: bool = False

    @property
    def head_size(self) -> int:
        return self.output.in_features // self.num_heads


@dataclass(frozen=True)
class LayerTrace:
    """The true values inside one layer, in the graph; M = B * N rows of S tokens, F feed-forward units."""

    hidden: Tensor  # [M, S, D] the layer's input x
    attention: Tensor  # [M, H, S, S] probabilities
    value_input: Tensor  # [M, S, D] what `value` is given: x, or attention_norm(x)
    values: Tensor  # [M, H, S, head size] with their bias, one for each head of the queries
    attention_sum: Tensor  # [M, S, D] x + output(mix(values))
    attention_block: Tensor  # [M, S, D] a: attention_norm(attention_sum), or attention_sum itself
    feed_forward_input: Tensor  # [M, S, D] what `up` is given: a, or feed_forward_norm(a)
    preactivation: Tensor  # [M, S, F] what `activation` is given
    feed_forward_sum: Tensor  # [M, S, D] a + feed-forward output
    output: Tensor  # [M, S, D] y: feed_forward_norm(feed_forward_sum), or feed_forward_sum itself


def split_heads(states: Tensor, num_heads: int) -> Tensor:
    """Returns [M, heads, S, d] from [M, S, heads * d]."""
    return states.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def trace_layer(layer: EncoderLayer, hidden: Tensor, attention: Tensor) -> LayerTrace:
    """Returns what flows through `layer` for its input [M, S, D] and its attention probabilities [M, H, S, S]."""
    value_input = layer.attention_norm(hidden) if layer.norm_first else hidden
    values = split_heads(layer.value(value_input), layer.value.out_features // layer.head_size)
    values = values.repeat_interleave(layer.num_heads // values.shape[1], dim=1)  # heads that share their values
    attention_sum = hidden + layer.output((attention @ values).transpose(1, 2).flatten(2))
    attention_block = attention_sum if layer.norm_first else layer.attention_norm(attention_sum)
    feed_forward_input = layer.feed_forward_norm(attention_block) if layer.norm_first else attention_block
    if layer.gate is None:
        preactivation = layer.up(feed_forward_input)
        units = layer.activation(preactivation)
    else:
        preactivation = layer.gate(feed_forward_input)
        units = layer.activation(preactivation) * layer.up(feed_forward_input)
    feed_forward_sum = attention_block + layer.down(units)
    output = feed_forward_sum if layer.norm_first else layer.feed_forward_norm(feed_forward_sum)
    return LayerTrace(
        hidden=hidden,
        attention=attention,
        value_input=value_input,
        values=values,
        attention_sum=attention_sum,
        attention_block=attention_block,
        feed_forward_input=feed_forward_input,
        preactivation=preactivation,
        feed_forward_sum=feed_forward_sum,
        output=output,
    )


def to_segments(states: Tensor, attention: Tensor) -> Tensor:
    """Returns token states [B, T, D] as the rows [M, S, D] of `attention` [M, H, S, S], zeros past the end."""
    batch, num_tokens = states.shape[:2]
    rows, size = attention.shape[0], attention.shape[-1]
    padded = F.pad(states, (0, 0, 0, rows // batch * size - num_tokens))
    return padded.reshape(rows, size, -1)


def from_segments(states: Tensor, batch: int, num_tokens: int) -> Tensor:
    """Returns token states [B, T, D] from rows [M, S, D]."""
    return states.reshape(batch, -1, states.shape[-1])[:, :num_tokens]


def trace_layers(
    layers: Sequence[EncoderLayer], output: ClassifierOutput, attention_mask: Tensor
) -> Iterator[LayerTrace]:
    """Yields the trace of every layer, first layer first, from the hidden states and attentions of a forward pass.

    Args:
        layers: of the network that gave `output`.
        output: of a forward pass with attentions and hidden states.
        attention_mask: [B, T] bool.

    Raises:
        ValueError: the network has layers of another form than `layers` say, so that a trace misses its next state.
    """
    for place, (layer, hidden, attention) in enumerate(
        zip(layers, output.hidden_states, output.attentions, strict=False)
    ):
        traced = trace_layer(layer, to_segments(hidden, attention), attention)
        if place + 1 < len(layers) or not layer.norm_first:  # decoders give their last state after one more norm
            wanted = output.hidden_states[place + 1]
            found = from_segments(traced.output, *hidden.shape[:2])
            _require_equal(found[attention_mask], wanted[attention_mask], f"layer {place} is of another form")
        yield traced


def read_logits(head: Sequence[Callable[[Tensor], Tensor]], read: Tensor) -> Tensor:
    """Returns logits [B, C] of the states [B, R, D] that the head reads, R = 1 for one head or R = C."""
    for part in head:
        read = part(read)
    return read.flatten(1)


def check_head(head: Sequence[Callable[[Tensor], Tensor]], read: Tensor, logits: Tensor) -> None:
    """Raises a ValueError unless `head` turns the states [B, R, D] that it reads into `logits` [B, C]."""
    _require_equal(read_logits(head, read), logits, "the head is of another form")


@torch.no_grad()
def _require_equal(found: Tensor, wanted: Tensor, otherwise: str) -> None:
    if not wanted.numel():
        return
    gap, scale = float((found - wanted).abs().max()), float(wanted.abs().max())
    tolerance = max(_TOLERANCE, _ROUNDINGS * torch.finfo(found.dtype).eps)
    if not gap <= tolerance * (scale + 1e-6):
        raise ValueError(
            f"{otherwise} than the roles of its parts say (values up to {scale:.3g} are missed by {gap:.3g}): this "
            "architecture cannot be decomposed; choose a gradient or perturbation method"
        )
