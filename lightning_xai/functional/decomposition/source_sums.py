"""Hidden states as sums of one vector per source token. The vectors pass through frozen layers, which are linear.

Letters in shapes:
    R: number of target tokens, the tokens whose states are decomposed
    S: number of source tokens
    c: number of sources in a chunk
    F: number of feed-forward units
    K: number of biases of a layer
    W: number of mixtures (weighted sums) of the target tokens' states
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lightning_xai.functional.decomposition.bias_shares import BiasRule, BiasShares, distribute_bias
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer
from lightning_xai.functional.decomposition.frozen_activation import Approximation, linearize
from lightning_xai.functional.decomposition.frozen_layer import FrozenLayer
from lightning_xai.functional.decomposition.frozen_norm import freeze_norm

Attended = Iterable[tuple[Tensor, Tensor | None]]  # results of `FrozenLayer.attend` and its variants


@dataclass
class SourceSums:
    """States [R, D] as sums of S vectors, one per source.

    The method `chunks` yields the vectors, after adding each source's shares of the biases.

    Example:
        >>> parts, shares = [torch.tensor([[[1.0]]]), torch.tensor([[[2.0]]])], torch.tensor([[[0.25], [0.75]]])
        >>> sums = SourceSums(parts, shares, biases=torch.tensor([[[4.0]]]))
        >>> [chunk.item() for chunk in sums.chunks()]  # 1 + 0.25 * 4 and 2 + 0.75 * 4
        [2.0, 5.0]
    """

    parts: list[Tensor]  # chunks [R, c, D] of the vectors, without the biases
    shares: Tensor | None  # [R, S, K], each source's fraction of each bias
    biases: Tensor  # [R, K, D], each bias after it has passed through the later parts of the layer

    def chunks(self) -> Iterator[Tensor]:
        """Yields chunks [R, c, D] of the S vectors, with each source's shares of the biases added.

        Each chunk is removed from `parts`, so the vectors can be read only once.
        """
        first = 0
        while self.parts:
            part = self.parts.pop(0)
            if self.shares is not None:
                share = self.shares[:, first : first + part.shape[1]]
                add_product = torch.baddbmm if torch.is_grad_enabled() else torch.Tensor.baddbmm_
                part = add_product(part, share, self.biases)
            first += part.shape[1]
            yield part


def _enter_biases(layer: FrozenLayer, rule: BiasRule) -> tuple[BiasShares, Tensor]:
    """Passes each of the layer's K biases through the parts of the layer that come after the bias is added.

    Returns the `BiasShares` and the transformed biases [R, K, D].
    """
    shares = BiasShares(rule, layer.biases)
    no_columns = layer.hidden.new_zeros(len(layer.rows), 0, layer.hidden.shape[-1])
    # `shares` stores these biases. They must not be in scratch memory, because each chunk of sources overwrites it
    return shares, replace(layer, scratch=None).after_attention(no_columns, shares.enter)


def decompose_layer(layer: FrozenLayer, attended: Attended, rule: BiasRule) -> SourceSums:
    """Returns the output states of the layer as sums over sources.

    If gradients are off, the tensors in `attended` are overwritten.

    Args:
        layer: the frozen layer.
        attended: for each chunk of sources, the result of `attend`, `attend_to_mixtures` or `attend_to_tokens`.
        rule: how biases are divided among the sources, see `BiasShares`.

    Example:
        >>> from lightning_xai.functional.decomposition.encoder_layer import trace_layers
        >>> from lightning_xai.functional.decomposition.frozen_layer import freeze_layer
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6]])
        >>> output, layers = model(inputs, output_attentions=True, output_hidden_states=True), model.encoder_layers()
        >>> (trace,) = trace_layers(layers, output, inputs.attention_mask)
        >>> layer = freeze_layer(layers[0], trace, torch.arange(3), is_first=True, feed_forward="zero_origin")
        >>> sums = decompose_layer(layer, [layer.attend_to_tokens(slice(0, 3))], "absdot")
        >>> vectors = torch.cat(list(sums.chunks()), dim=1)  # [R, S, D]
        >>> torch.allclose(vectors.sum(dim=1), output.hidden_states[1][0], atol=1e-4)
        True
    """
    shares, biases = _enter_biases(layer, rule)
    parts = [layer.after_attention(vectors, shares.record, units) for vectors, units in attended]
    return SourceSums(parts, shares.shares(), biases)


def mixtures_suffice(layer: FrozenLayer, following: EncoderLayer, rule: BiasRule, num_rows: int) -> bool:
    """Returns whether `decompose_mixtures` is possible and cheaper than `decompose_layer`.

    Args:
        layer: the frozen layer.
        following: the next layer, whose attention mixes the output states of `layer`.
        rule: how biases are divided among the sources, see `BiasShares`.
        num_rows: number of tokens whose output states the next layer computes.

    Example:
        >>> from lightning_xai.functional.decomposition.encoder_layer import trace_layers
        >>> from lightning_xai.functional.decomposition.frozen_layer import freeze_layer
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6]])
        >>> output, layers = model(inputs, output_attentions=True, output_hidden_states=True), model.encoder_layers()
        >>> (trace,) = trace_layers(layers, output, inputs.attention_mask)
        >>> layer = freeze_layer(layers[0], trace, torch.arange(3), is_first=True, feed_forward="zero_origin")
        >>> [mixtures_suffice(layer, layers[0], "absdot", num_rows) for num_rows in (1, 2)]  # 2 heads, D = 4
        [True, False]
    """
    post_norm = not layer.parts.norm_first and not following.norm_first and layer.slope is not None
    few = num_rows * following.num_heads < layer.hidden.shape[-1]
    return post_norm and few and BiasShares(rule, {}).needs_products_only


def decompose_mixtures(layer: FrozenLayer, attended: Attended, rule: BiasRule, weights: Tensor) -> list[Tensor]:
    """Decomposes W mixtures (weighted sums) of the layer's output states into one vector for each source token.

    The result is a list of chunks [W, c, D], each with the vectors of c sources. For each mixture, the vectors of all
    sources sum to the mixture. They include the sources' shares of the biases.

    If gradients are off, the tensors in `attended` are overwritten.

    Args:
        layer: the frozen layer.
        attended: for each chunk of sources, the result of `attend`, `attend_to_mixtures` or `attend_to_tokens`.
        rule: how biases are divided among the sources, see `BiasShares`.
        weights: [W, R] weights of the R output states in each mixture.

    Example:
        >>> from lightning_xai.functional.decomposition.encoder_layer import trace_layers
        >>> from lightning_xai.functional.decomposition.frozen_layer import freeze_layer
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6]])
        >>> output, layers = model(inputs, output_attentions=True, output_hidden_states=True), model.encoder_layers()
        >>> (trace,) = trace_layers(layers, output, inputs.attention_mask)
        >>> layer = freeze_layer(layers[0], trace, torch.arange(3), is_first=True, feed_forward="zero_origin")
        >>> attended, mean = [layer.attend_to_tokens(slice(0, 3))], torch.full((1, 3), 1 / 3)
        >>> (chunk,) = decompose_mixtures(layer, attended, "absdot", mean)  # [1, S, D]
        >>> torch.allclose(chunk.sum(dim=1), output.hidden_states[1][0].mean(dim=0), atol=1e-4)
        True
    """
    bias_shares, biases = _enter_biases(layer, rule)
    chunks = [layer.mixtures_after_attention(vectors, bias_shares, units, weights) for vectors, units in attended]
    shares = bias_shares.shares()
    if shares is None:
        return chunks
    for place, share in enumerate(shares.split([chunk.shape[1] for chunk in chunks], dim=1)):
        share = weights.unsqueeze(1).unsqueeze(-1) * share.transpose(0, 1)  # [W, c, R, K]
        chunks[place] = chunks[place] + share.flatten(2) @ biases.flatten(0, 1)
    return chunks


def decompose_head(
    head: Sequence[Callable[[Tensor], Tensor]],
    vectors: Tensor,
    states: Tensor,
    *,
    rule: BiasRule,
    activation: Approximation,
) -> Tensor:
    """Returns [R, S, C or 1]: each source's contribution to the outputs of a classification head.

    Args:
        head: linear maps, norms and elementwise activations of the head, in the order in which they are applied.
        vectors: [R, S, D], one vector per source.
        states: [R, D], the states that the classification head reads: the sums of `vectors` over the sources.
        rule: how biases are divided among the sources, see `BiasShares`.
        activation: how each activation is approximated by a line, see `linearize`.

    Example:
        >>> vectors = torch.tensor([[[3.0], [-1.0]]])  # the sum is 2; the line through (0, 0) and (2, 4) has slope 2
        >>> decompose_head([torch.square], vectors, torch.tensor([[2.0]]), rule="absdot", activation="zero_origin")
        tensor([[[ 6.],
                 [-2.]]])
    """
    for part in head:
        bias: Tensor | None
        if isinstance(part, nn.Linear):
            vectors, bias = F.linear(vectors, part.weight), part.bias
        elif isinstance(part, nn.Module) and (isinstance(part, nn.LayerNorm) or hasattr(part, "variance_epsilon")):
            norm = freeze_norm(part, states)
            vectors, bias = norm(vectors), norm.bias
        else:
            slope, bias = linearize(part, states, activation)
            vectors = vectors * slope.unsqueeze(1)
        if bias is not None:
            vectors = distribute_bias(vectors, bias, rule)
        states = part(states)
    return vectors
