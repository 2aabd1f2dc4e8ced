"""Hidden states as sums of one vector for each source token, carried through layers whose non-linearities are frozen.

Letters as in frozen_layer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lightning_xai.functional.decomposition.bias_shares import BiasRule, BiasShares, hand_out
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer
from lightning_xai.functional.decomposition.frozen_activation import Approximation, linearize
from lightning_xai.functional.decomposition.frozen_layer import FrozenLayer, freeze_norm


@dataclass
class SourceStates:
    """States [R, D] as the sum of S vectors each, in chunks of sources, with biases that are still to be handed out."""

    parts: list[Tensor]  # chunks [R, c, D] without the biases
    shares: Tensor | None  # [R, S, K]
    biases: Tensor  # [R, K, D]

    def chunks(self) -> Iterator[Tensor]:
        """Yields chunks [R, c, D] with their shares of the biases; each is let go when the next one is asked for."""
        first = 0
        while self.parts:
            part = self.parts.pop(0)
            if self.shares is not None:
                share = self.shares[:, first : first + part.shape[1]]
                given = torch.baddbmm if torch.is_grad_enabled() else torch.Tensor.baddbmm_
                part = given(part, share, self.biases)
            first += part.shape[1]
            yield part


def _enter_biases(layer: FrozenLayer, rule: BiasRule) -> tuple[BiasShares, Tensor]:
    """Returns the shares to be found, and what each of the layer's K biases becomes in the rest of it, [R, K, D]."""
    shares = BiasShares(rule, layer.biases)
    none = layer.hidden.new_zeros(len(layer.rows), 0, layer.hidden.shape[-1])
    # the shares keep the columns until all sources have come by, so these need memory of their own
    return shares, replace(layer, scratch=None).after_attention(none, shares.enter)


def decompose_layer(
    layer: FrozenLayer, attended: Iterable[tuple[Tensor, Tensor | None]], rule: BiasRule
) -> SourceStates:
    """Returns the layer's output as a sum over sources, from what `attend` or `attend_to_tokens` gives for chunks.

    Without a graph the chunks' memory is taken, here and in `read_layer`.
    """
    shares, biases = _enter_biases(layer, rule)
    parts = [layer.after_attention(vectors, shares.record, units) for vectors, units in attended]
    return SourceStates(parts, shares.shares(), biases)


def can_be_read(layer: FrozenLayer, following: EncoderLayer, rule: BiasRule, num_rows: int) -> bool:
    """Returns whether `read_layer` does for `layer`, of which the `following` one needs few mixtures of targets."""
    post_norm = not layer.parts.norm_first and not following.norm_first and layer.slope is not None
    few = num_rows * following.num_heads < layer.hidden.shape[-1]
    return post_norm and few and BiasShares(rule, {}).needs_products_only


def read_layer(
    layer: FrozenLayer, attended: Iterable[tuple[Tensor, Tensor | None]], rule: BiasRule, weights: Tensor
) -> list[Tensor]:
    """Returns weights [W, R] @ the sum over sources that `decompose_layer` gives, as chunks [W, c, D] with biases."""
    shares, biases = _enter_biases(layer, rule)
    chunks = [layer.read_after_attention(vectors, shares, units, weights) for vectors, units in attended]
    found = shares.shares()
    if found is None:
        return chunks
    for place, share in enumerate(found.split([chunk.shape[1] for chunk in chunks], dim=1)):
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
    """Returns outputs [R, S, C or 1] of a head for the vectors [R, S, D] that sum to the `states` [R, D] it reads.

    Args:
        head: linear maps, norms and elementwise activations in the order of their use.
    """
    for part in head:
        if isinstance(part, nn.Linear):
            vectors, bias = F.linear(vectors, part.weight), part.bias
        elif isinstance(part, nn.LayerNorm) or hasattr(part, "variance_epsilon"):
            norm = freeze_norm(part, states)
            vectors, bias = norm(vectors), norm.bias
        else:
            slope, bias = linearize(part, states, activation)
            vectors = vectors * slope.unsqueeze(1)
        if bias is not None:
            vectors = hand_out(vectors, bias, rule)
        states = part(states)
    return vectors
