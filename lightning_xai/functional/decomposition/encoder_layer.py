"""The parts of a transformer layer and the layer's intermediate results, for methods that decompose layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lightning_xai.types import ClassifierOutput

# largest accepted error of a recomputed output, as a fraction of the output's largest value. This is far above float32
# rounding errors, and far below the error that arises if EncoderLayer assigns a wrong role to a module
_TOLERANCE = 1e-3
_ROUNDINGS = 4  # in half precision, the tolerance is larger: this number times the epsilon of the dtype


@dataclass(frozen=True)
class EncoderLayer:
    """The parts of a transformer layer, named by their roles, so that the names are the same for all architectures.

    The layer maps its input x to its output y as follows. mix(v) computes attention @ v for each head, and concatenates
    the results of all heads.

    - If `norm_first` is False (as in BERT): a = attention_norm(x + output(mix(value(x)))),
      y = feed_forward_norm(a + down(activation(up(a)))).
    - If `norm_first` is True (as in Llama): a = x + output(mix(value(attention_norm(x)))), n = feed_forward_norm(a),
      y = a + down(activation(up(n))). If there is a gate, y = a + down(activation(gate(n)) * up(n)).

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> (layer,) = random_bert().encoder_layers()
        >>> layer.norm_first, layer.num_heads, layer.head_size
        (False, 2, 2)
    """

    module: nn.Module  # the layer itself; its first argument is the hidden state [B*N, S, D]
    value: nn.Linear  # from size D to size (number of value heads) * (head size)
    output: nn.Linear  # from size H * (head size) to size D
    attention_norm: nn.Module  # LayerNorm, or RMSNorm (which has a weight, but no bias)
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
    """The intermediate results of one layer in a forward pass. They are part of the autograd graph.

    There are M = B * N rows (texts or segments) of S tokens, H attention heads and F feed-forward units. The docstring
    of `EncoderLayer` gives the formulas; it calls `hidden` x, `attention_block` a, and `output` y.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6]])
        >>> output = model(inputs, output_attentions=True, output_hidden_states=True)
        >>> trace = trace_layer(model.encoder_layers()[0], output.hidden_states[0], output.attentions[0])
        >>> trace.hidden.shape, trace.values.shape, trace.preactivation.shape  # D = 4, H = 2, F = 4
        (torch.Size([1, 3, 4]), torch.Size([1, 2, 3, 2]), torch.Size([1, 3, 4]))
    """

    hidden: Tensor  # [M, S, D] the layer's input
    attention: Tensor  # [M, H, S, S] attention probabilities
    value_input: Tensor  # [M, S, D] input of `value`: hidden; if `norm_first`, attention_norm(hidden)
    values: Tensor  # [M, H, S, head size] value vectors with bias; repeated for query heads that share a value head
    attention_sum: Tensor  # [M, S, D] hidden plus the output of self-attention
    attention_block: Tensor  # [M, S, D] attention_norm(attention_sum); if `norm_first`, attention_sum itself
    feed_forward_input: Tensor  # [M, S, D] input of `up`: attention_block; if `norm_first`, its feed_forward_norm
    preactivation: Tensor  # [M, S, F] input of `activation`
    feed_forward_sum: Tensor  # [M, S, D] attention_block plus the output of the feed-forward network
    output: Tensor  # [M, S, D] feed_forward_norm(feed_forward_sum); if `norm_first`, feed_forward_sum itself


def split_heads(states: Tensor, num_heads: int) -> Tensor:
    """Returns `states` [M, S, heads * d] in the shape [M, heads, S, d].

    Example:
        >>> split_heads(torch.tensor([[[1, 2, 3, 4]]]), 2).tolist()
        [[[[1, 2]], [[3, 4]]]]
    """
    return states.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def trace_layer(layer: EncoderLayer, hidden: Tensor, attention: Tensor) -> LayerTrace:
    """Returns the intermediate results of `layer`, recomputed from the layer's input and attention probabilities.

    Args:
        layer: the layer.
        hidden: [M, S, D], the layer's input.
        attention: [M, H, S, S], the layer's attention probabilities.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6]])
        >>> output = model(inputs, output_attentions=True, output_hidden_states=True)
        >>> trace = trace_layer(model.encoder_layers()[0], output.hidden_states[0], output.attentions[0])
        >>> torch.allclose(trace.output, output.hidden_states[1], atol=1e-5)  # the network's output
        True
    """
    value_input = layer.attention_norm(hidden) if layer.norm_first else hidden
    values = split_heads(layer.value(value_input), layer.value.out_features // layer.head_size)
    values = values.repeat_interleave(layer.num_heads // values.shape[1], dim=1)  # query heads may share a value head
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
    """Divides the token states [B, T, D] of texts into M segments of S tokens, and returns their states [M, S, D].

    M and S are those of `attention` [M, H, S, S]. The states of each text are padded with zeros at the end.

    Example:
        >>> states = torch.tensor([[[1.0], [2.0], [3.0]]])
        >>> to_segments(states, torch.zeros(2, 1, 2, 2)).squeeze(-1).tolist()  # two segments of two tokens
        [[1.0, 2.0], [3.0, 0.0]]
    """
    batch, num_tokens = states.shape[:2]
    rows, size = attention.shape[0], attention.shape[-1]
    padded = F.pad(states, (0, 0, 0, rows // batch * size - num_tokens))
    return padded.reshape(rows, size, -1)


def from_segments(states: Tensor, batch: int, num_tokens: int) -> Tensor:
    """Returns token states [B, T, D] from the states [M, S, D] of segments, the inverse of `to_segments`.

    Example:
        >>> segments = torch.tensor([[[1.0], [2.0]], [[3.0], [0.0]]])
        >>> from_segments(segments, 1, 3).squeeze(-1).tolist()
        [[1.0, 2.0, 3.0]]
    """
    return states.reshape(batch, -1, states.shape[-1])[:, :num_tokens]


def trace_layers(
    layers: Sequence[EncoderLayer], output: ClassifierOutput, attention_mask: Tensor
) -> Iterator[LayerTrace]:
    """Yields the `LayerTrace` of every layer, first layer first, from the output of a forward pass.

    Args:
        layers: the layers of the network that returned `output`.
        output: output of a forward pass with attentions and hidden states.
        attention_mask: [B, T] bool, False at padding.

    Raises:
        ValueError: the output recomputed from a layer's parts differs from the hidden state that the network computed.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6]])
        >>> output = model(inputs, output_attentions=True, output_hidden_states=True)
        >>> [trace.output.shape for trace in trace_layers(model.encoder_layers(), output, inputs.attention_mask)]
        [torch.Size([1, 3, 4])]
    """
    assert output.hidden_states is not None and output.attentions is not None, "`output` lacks attentions or states"
    for place, (layer, hidden, attention) in enumerate(
        zip(layers, output.hidden_states, output.attentions, strict=False)
    ):
        trace = trace_layer(layer, to_segments(hidden, attention), attention)
        # if `norm_first`, the network's last hidden state is not the last layer's output, because a final norm follows
        if place + 1 < len(layers) or not layer.norm_first:
            recomputed = from_segments(trace.output, *hidden.shape[:2])[attention_mask]
            _require_equal(recomputed, output.hidden_states[place + 1][attention_mask], f"layer {place}")
        yield trace


def head_logits(head: Sequence[Callable[[Tensor], Tensor]], pooled: Tensor) -> Tensor:
    """Returns the logits [B, C] that a classification head computes from pooled states.

    Args:
        head: linear maps, norms and activations of the head, in the order in which they are applied.
        pooled: [B, R, D] weighted means of token states: one for all classes (R = 1), or one for each class (R = C).

    Example:
        >>> head_logits([torch.neg, torch.relu], torch.tensor([[[-2.0, 3.0]]])).tolist()
        [[2.0, 0.0]]
    """
    for part in head:
        pooled = part(pooled)
    return pooled.flatten(1)


def check_head(head: Sequence[Callable[[Tensor], Tensor]], pooled: Tensor, logits: Tensor) -> None:
    """Checks that the classification head computes `logits` [B, C] from pooled states [B, R, D].

    Raises:
        ValueError: the logits that the head computes differ from `logits`.

    Example:
        >>> check_head([torch.neg], torch.tensor([[[-2.0, 3.0]]]), torch.tensor([[2.0, -3.0]]))
    """
    _require_equal(head_logits(head, pooled), logits, "the classification head")


@torch.no_grad()
def _require_equal(recomputed: Tensor, true: Tensor, part: str) -> None:
    if not true.numel():
        return
    gap, scale = float((recomputed - true).abs().max()), float(true.abs().max())
    tolerance = max(_TOLERANCE, _ROUNDINGS * torch.finfo(recomputed.dtype).eps)
    if not gap <= tolerance * (scale + 1e-6):
        raise ValueError(
            f"the output of {part}, recomputed from its parts, differs from the network's output by {gap:.3g} (the "
            f"largest output is {scale:.3g}): this architecture cannot be decomposed; choose a gradient or "
            "perturbation method"
        )
