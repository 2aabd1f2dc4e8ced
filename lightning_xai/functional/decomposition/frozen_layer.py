"""A transformer layer made linear in its input: norm statistics, activation slopes and attention are held constant.

Letters in shapes:
    R: number of target tokens: all T tokens of one text or segment, or only the tokens whose output states are needed
    c: number of source tokens in a chunk. A chunk [R, c, D] holds the vectors of c source tokens in the R states
    F: number of feed-forward units
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.functional.decomposition.bias_shares import BiasShares
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, LayerTrace
from lightning_xai.functional.decomposition.frozen_activation import linearize
from lightning_xai.functional.decomposition.frozen_norm import FrozenNorm, add_to, freeze_norm, multiply_by

FeedForward = Literal["zero_origin", "local_affine", "relu", "none"]

# function that a frozen layer calls at each place of a bias, instead of adding the bias. Arguments: the name of the
# place, and the vectors before the bias. Result: the vectors with which the layer continues
BiasHook = Callable[[str, Tensor], Tensor]


@dataclass(frozen=True)
class FrozenLayer:
    """A transformer layer as a linear map from the states of all tokens to the output states of R target tokens.

    The attention probabilities, the norms' standard deviations and the slopes of the activation are constants, taken
    from a forward pass. If the feed-forward block has a gate, the activated gate is constant, too.

    Each state is a sum of vectors, one for each source token. These vectors pass through the layer in two steps: first
    `attend`, `attend_to_mixtures` or `attend_to_tokens`, then `after_attention`. With gradients off, both steps may
    overwrite their input vectors.

    Example:
        >>> from lightning_xai.functional.decomposition.encoder_layer import trace_layers
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6]])
        >>> output, layers = model(inputs, output_attentions=True, output_hidden_states=True), model.encoder_layers()
        >>> (trace,) = trace_layers(layers, output, inputs.attention_mask)
        >>> layer = freeze_layer(layers[0], trace, torch.arange(3), is_first=True, feed_forward="zero_origin")
        >>> vectors, units = layer.attend_to_tokens(slice(0, 3))
        >>> states = layer.after_attention(vectors, lambda place, vectors: vectors, units)  # [R, c, D]
        >>> torch.allclose(states.sum(dim=1), output.hidden_states[1][0], atol=1e-4)  # this network's biases are 0
        True
    """

    parts: EncoderLayer
    hidden: Tensor  # [T, D] the layer's input in the forward pass
    attention: Tensor  # [H, R, T] attention probabilities
    values: Tensor  # [H, T, head size] value vectors, with the value bias
    rows: Tensor  # [R] positions of the target tokens among the T tokens
    attention_norm: FrozenNorm
    feed_forward_norm: FrozenNorm
    slope: Tensor | None  # [R, 1, F] slopes of the activation; None if the feed-forward block is left out
    biases: dict[str, Tensor]  # place in the layer -> bias [dim] or [R, dim]; ordered as the layer adds them
    scratch: Tensor | None = None  # memory for the result of `up`; if None, each chunk gets new memory

    @property
    def reads_few_rows(self) -> bool:
        """Whether it is cheaper to apply the attention probabilities before the value matrix, because H * R < D."""
        num_heads, num_rows, _ = self.attention.shape
        return num_rows * num_heads < self.hidden.shape[-1]

    def attend(self, vectors: Tensor) -> tuple[Tensor, None]:
        """Returns vectors [R, c, D], the attention block's input plus its output without biases; and None.

        The results are the arguments `vectors` and `units` of `after_attention`. Since `units` is None,
        `after_attention` applies the map `up` itself. With gradients off, the first result may overwrite `vectors`.

        Args:
            vectors: [T, c, D], the vectors of c source tokens in the states of all T tokens.
        """
        parts, (num_heads, num_rows, num_tokens), count = self.parts, self.attention.shape, vectors.shape[1]
        residual = vectors if num_rows == num_tokens else vectors[self.rows]
        inputs = self.attention_norm(vectors) if parts.norm_first else vectors
        if self.reads_few_rows:
            mixed = self.attention.flatten(0, 1) @ inputs.flatten(1)
            return self.attend_to_mixtures(torch.cat([mixed.view(-1, count, inputs.shape[-1]), residual]))
        values = F.linear(inputs, parts.value.weight).unflatten(-1, (-1, parts.head_size))
        values = values.permute(2, 0, 1, 3).flatten(2)  # [value heads, T, c * head size]
        shared = num_heads // len(values)
        mixed = self.attention.view(len(values), shared * num_rows, num_tokens) @ values
        return self._output(mixed.view(num_heads, num_rows, count, parts.head_size), residual), None

    def attend_to_mixtures(self, mixtures: Tensor) -> tuple[Tensor, None]:
        """Returns the results of `attend`, given vectors that are already multiplied by the attention probabilities.

        Args:
            mixtures: [H * R + R, c, D]. The first H * R entries are attention @ vectors, one per head and target token;
                if `norm_first`, these vectors have passed the norm before attention. The last R entries are the vectors
                in the target tokens' states, and are overwritten if gradients are off.
        """
        (num_heads, num_rows, _), count = self.attention.shape, mixtures.shape[1]
        mixed, residual = mixtures.split([num_heads * num_rows, num_rows])
        weight = self.parts.value.weight.unflatten(0, (-1, self.parts.head_size))  # [value heads, head size, D]
        values = mixed.reshape(len(weight), -1, mixed.shape[-1]) @ weight.transpose(1, 2)
        return self._output(values.view(num_heads, num_rows, count, weight.shape[1]), residual), None

    def _output(self, values: Tensor, residual: Tensor) -> Tensor:
        """Applies the output map to attention-weighted `values` [H, R, c, head size], and adds `residual` [R, c, D]."""
        rows = values.permute(1, 2, 0, 3).flatten(2).flatten(0, 1)
        add_product = torch.addmm if torch.is_grad_enabled() else Tensor.addmm_
        return add_product(residual.view(-1, residual.shape[-1]), rows, self.parts.output.weight.T).view(residual.shape)

    def attend_to_tokens(self, sources: slice) -> tuple[Tensor, Tensor | None]:
        """Returns, for the first layer, vectors [R, c, D] as `attend` does, and the output [R, c, F] of the map `up`.

        The second result is None if the feed-forward block is left out. In the first layer, the input of each token is
        the token's own vector. So the vector of a source token in a target token's state is a weighted sum of H + 1
        vectors: the source's value vector in each head (with the value bias, unlike in `attend`; after the output map),
        and the source's input. Only the weights depend on the target. To save time, the next norm and `up`, which are
        linear, are applied only to these H + 1 vectors of each source.

        Args:
            sources: positions of the c source tokens.
        """
        parts = self.parts
        places = torch.arange(self.hidden.shape[0], device=self.rows.device)[sources].view(-1, 1, 1)
        is_target = places == self.rows.view(-1, 1)
        weights = self.attention[:, :, sources].permute(2, 1, 0)
        weights = torch.cat([weights, is_target.to(weights.dtype)], dim=-1)  # [c, R, H + 1]
        passed = self.values[:, sources] @ parts.output.weight.T.unflatten(0, (parts.num_heads, -1))
        # [c, H + 1, D]: for each of c source tokens, one vector per head and the token's own input
        passed = torch.cat([passed.transpose(0, 1), self.hidden[sources].unsqueeze(1)], dim=1)
        vectors = (weights @ passed).transpose(0, 1).contiguous()
        if self.slope is None:
            return vectors, None
        norm = self.feed_forward_norm if parts.norm_first else self.attention_norm
        units = (weights * norm.rate.squeeze(1)) @ F.linear(norm.without_rate(passed), parts.up.weight)
        return vectors, units.transpose(0, 1).contiguous()

    def after_attention(self, vectors: Tensor, at_bias: BiasHook, units: Tensor | None = None) -> Tensor:
        """Returns the vectors [R, c, D] of c source tokens in the layer's output.

        Args:
            vectors: [R, c, D], the input plus the output of the attention block. Overwritten if gradients are off.
            at_bias: called at every place of a bias, see `BiasHook`.
            units: [R, c, F], the result of `up`; None if it must be computed here. Overwritten if gradients are off.
        """
        parts = self.parts
        block, units = self._until_down(vectors, at_bias, units)
        if units is not None:
            added = at_bias("down", F.linear(units, parts.down.weight))
            if added.shape != block.shape:  # `BiasShares.enter` has appended the bias; `block` gets zeros there
                block = F.pad(block, (0, 0, 0, added.shape[1] - block.shape[1]))
            block = add_to(block, added)
        if not parts.norm_first:
            block = at_bias("feed_forward_norm", self.feed_forward_norm(block, in_place=True))
        return block

    def mixtures_after_attention(
        self, vectors: Tensor, shares: BiasShares, units: Tensor | None, weights: Tensor
    ) -> Tensor:
        """Returns weights @ `after_attention(vectors)`: W weighted sums [W, c, D] over the target tokens.

        The layer must be post-norm (norms after blocks). To save time, the layer sums over the target tokens before the
        down-projection, whose matrix M is then applied to W rows instead of R rows. `shares` needs the inner product of
        M v with a bias b for the units v of each target token. This product is computed as v . (M' b), where M' is the
        transpose of M, so that no M v is computed.

        Args:
            vectors, units: as in `after_attention`.
            shares: the object that stores the inner products of vectors with biases.
            weights: [W, R] weights of the target tokens in each sum.
        """
        block, units = self._until_down(vectors, shares.record, units)
        assert units is not None, "a layer whose feed-forward block is left out has no down-projection"
        norm, down = self.feed_forward_norm, self.parts.down.weight
        if "down" in self.biases:
            shares.record_products("down", units @ (self.biases["down"] @ down))
        if norm.bias is not None:
            scaled = norm.weight * norm.bias
            scaled = scaled - scaled.mean() if norm.centered else scaled
            product = block @ scaled + units @ (scaled @ down)  # [R, c]
            shares.record_products("feed_forward_norm", product * norm.rate.squeeze(-1))
        weights = weights * norm.rate.flatten()
        mixed = [(weights @ part.flatten(1)).view(len(weights), *part.shape[1:]) for part in (block, units)]
        return norm.without_rate(mixed[0] + F.linear(mixed[1], down))

    def _until_down(self, vectors: Tensor, at_bias: BiasHook, units: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Sends vectors through the layer up to the down-projection.

        Returns the residual [R, c, D], to which the output of the down-projection must be added, and the units
        [R, c, F], which are the input of the down-projection. The units are None if the feed-forward block is left out.
        """
        parts = self.parts
        block = at_bias("attention", vectors)
        if not parts.norm_first:
            block = at_bias("attention_norm", self.attention_norm(block, in_place=True))
        if self.slope is None:
            return block, None
        inputs = at_bias("feed_forward_norm", self.feed_forward_norm(block)) if parts.norm_first else block
        units = at_bias("up", self._up(inputs) if units is None else units)
        return block, at_bias("activation", multiply_by(units, self.slope))

    def _up(self, inputs: Tensor) -> Tensor:
        """Applies `up` to inputs [R, c, D]. The result [R, c, F] is in the scratch memory if this is large enough."""
        weight = self.parts.up.weight
        size = inputs.shape[:2].numel() * len(weight)
        if self.scratch is None or size > len(self.scratch):
            return F.linear(inputs, weight)
        # reuses the scratch memory: to allocate new memory would take half as much time as the matrix product itself
        units = self.scratch[:size].view(-1, len(weight))
        return torch.mm(inputs.flatten(0, 1), weight.T, out=units).view(*inputs.shape[:2], len(weight))


def freeze_layer(
    layer: EncoderLayer,
    trace: LayerTrace,
    rows: Tensor,
    *,
    is_first: bool,
    feed_forward: FeedForward,
    scratch: Tensor | None = None,
) -> FrozenLayer:
    """Returns the layer as a linear map whose constants are taken from a forward pass.

    Args:
        layer: the layer.
        trace: the layer's intermediate results in a forward pass of one text or segment without padding.
        rows: [R] long, positions of the target tokens, whose output states are needed.
        is_first: whether `layer` is the first layer. In the first layer, each token's value vector includes the value
            bias. In later layers, the value bias is divided among the sources like the other biases.
        feed_forward: the line that replaces the activation, see `linearize`; "none" leaves the feed-forward block out.
        scratch: one-dimensional memory for the result of `up`, which chunks overwrite; must be None with gradients on.

    Raises:
        ValueError: the norm before attention has a bias; or the layer has a gate, and `feed_forward` is neither
            "zero_origin" nor "none"; or `linearize` or `freeze_norm` raises the error.

    Example:
        >>> from lightning_xai.functional.decomposition.encoder_layer import trace_layers
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6]])
        >>> output, layers = model(inputs, output_attentions=True, output_hidden_states=True), model.encoder_layers()
        >>> (trace,) = trace_layers(layers, output, inputs.attention_mask)
        >>> layer = freeze_layer(layers[0], trace, torch.tensor([0]), is_first=True, feed_forward="none")
        >>> layer.attention.shape, layer.slope, list(layer.biases)  # one target, no feed-forward block
        (torch.Size([2, 1, 3]), None, ['attention', 'attention_norm', 'feed_forward_norm'])
    """
    before = trace.hidden[0] if layer.norm_first else trace.attention_sum[0, rows]
    attention_norm = freeze_norm(layer.attention_norm, before)
    after = trace.attention_block if layer.norm_first else trace.feed_forward_sum
    feed_forward_norm = freeze_norm(layer.feed_forward_norm, after[0, rows])
    if layer.norm_first and attention_norm.bias is not None:
        raise ValueError("the layer cannot be decomposed: its norm before attention has a bias; choose another method")
    biases = {"attention": _attention_bias(layer, is_first=is_first), "attention_norm": attention_norm.bias}
    if layer.norm_first:
        biases["feed_forward_norm"] = feed_forward_norm.bias
    slope, intercept = None, None
    if feed_forward != "none":
        preactivation = trace.preactivation[0, rows]
        if layer.gate is not None:
            if feed_forward != "zero_origin":
                raise ValueError(
                    f"a feed-forward block with a gate cannot be made linear with {feed_forward!r}: "
                    "set `activation: zero_origin` or `feed_forward: left_out`"
                )
            slope = layer.activation(preactivation)
        else:
            slope, intercept = linearize(layer.activation, preactivation, feed_forward)
        biases |= {"up": layer.up.bias, "activation": intercept, "down": layer.down.bias}
        slope = slope.unsqueeze(1)
    if not layer.norm_first:
        biases["feed_forward_norm"] = feed_forward_norm.bias
    return FrozenLayer(
        parts=layer,
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


def _attention_bias(layer: EncoderLayer, *, is_first: bool) -> Tensor | None:
    """Returns the bias [D] of the attention block, including the value bias unless `is_first`.

    The attention probabilities of a token sum to 1, so the value bias passes through attention unchanged.
    """
    bias = layer.output.bias
    if is_first or layer.value.bias is None:
        return bias
    heads = layer.value.bias.view(-1, layer.head_size)
    passed = F.linear(heads.repeat_interleave(layer.num_heads // len(heads), dim=0).flatten(), layer.output.weight)
    return passed if bias is None else passed + bias
