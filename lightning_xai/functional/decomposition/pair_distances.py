"""L1 distances between states and the vectors that attention moves, for all pairs of tokens, one block at a time.

Letters: N rows (texts or segments), H attention heads, S tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def by_source(attention: Tensor) -> Tensor:
    """Returns a contiguous copy [N, S source, H, S target] of `attention` [N, H, S target, S source].

    Example:
        >>> by_source(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).tolist()
        [[[[1.0, 3.0]], [[2.0, 4.0]]]]
    """
    # 32 sources at a time fit in the CPU's cache. Copying all sources at once takes 3 times as long at 1,024 tokens
    panels = [panel.contiguous().permute(0, 3, 1, 2).contiguous() for panel in attention.split(32, dim=-1)]
    return torch.cat(panels, dim=1)


def l1_pair_distances(
    attention: Tensor, vectors: Tensor, states: Tensor, *, chunk_elements: int | None = None
) -> Tensor:
    """Returns the L1 distances [N, S target, S source] between the state of target i and sum_h A^h_ij U_jh.

    The distances are computed in blocks of targets and sources. The backward pass computes the differences of a block
    again, so that the differences of all pairs are never in memory together.

    Args:
        attention: [N, H, S target, S source], the attention probabilities A.
        vectors: [N, S, H, D], the vectors U that attention moves.
        states: [N, S, D], the states of the targets.
        chunk_elements: largest number of elements in a block of difference vectors. None chooses a block that fits in
            the cache of a CPU or keeps a GPU busy. The results do not depend on `chunk_elements`.

    Example:
        >>> attention = torch.tensor([[[[0.5, 0.5], [0.0, 1.0]]]])
        >>> l1_pair_distances(attention, torch.tensor([[[[2.0]], [[4.0]]]]), torch.tensor([[[3.0], [4.0]]])).tolist()
        [[[2.0, 1.0], [4.0, 0.0]]]
    """
    _, size, _, dim = vectors.shape
    if chunk_elements is None:
        chunk_elements = 2**18 if vectors.device.type == "cpu" else 2**26
    num_targets = min(size, 128)  # fewer would be slow; more would leave less memory for sources
    rows = max(chunk_elements // (size * size * dim), 1)
    sources = max(chunk_elements // (rows * num_targets * dim), 1)
    weights = by_source(attention)
    dtype = torch.promote_types(torch.promote_types(weights.dtype, vectors.dtype), states.dtype)  # autocast mixes them
    weights, vectors, states = weights.to(dtype), vectors.to(dtype), states.to(dtype)
    # `split` makes the blocks, because the backward pass of an index such as vectors[block] writes zeros to all of
    # `vectors` for every block
    parts = []
    for row_states, row_weights, row_vectors in zip(
        states.split(rows), weights.split(rows), vectors.split(rows), strict=True
    ):
        targets = row_states.split(num_targets, dim=1)
        panels = zip(row_weights.split(sources, dim=1), row_vectors.split(sources, dim=1), strict=True)
        columns = [
            torch.cat(
                [
                    _BlockDistances.apply(block_states, block_weights, block_vectors)
                    for block_states, block_weights in zip(targets, panel.split(num_targets, dim=-1), strict=True)
                ],
                dim=-1,
            )
            for panel, block_vectors in panels
        ]
        parts.append(torch.cat(columns, dim=1))
    return torch.cat(parts).transpose(1, 2)


class _BlockDistances(torch.autograd.Function):
    """The L1 distances [n, sources, targets] between states and sum_h A^h_ij U_jh, for n texts or segments.

    The arguments are the states [n, targets, D], the attention probabilities A [n, sources, H, targets], and the
    vectors U [n, sources, H, D]. The backward pass can be differentiated again.
    """

    @staticmethod
    def forward(states: Tensor, weights: Tensor, vectors: Tensor) -> Tensor:
        return _differences(states, weights, vectors).abs_().sum(dim=-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        states, weights, vectors = ctx.saved_tensors
        with torch.no_grad():  # signs are constant, also if the backward pass is differentiated
            signs = _differences(states, weights, vectors).sign_()  # [n, sources, targets, D]
        scaled = -gradient.unsqueeze(2)  # [n, sources, 1, targets]
        # an einsum would be a product with strided matrices, which takes 5 times as long on the CPU
        of_states = (signs * gradient.unsqueeze(-1)).sum(dim=1) if ctx.needs_input_grad[0] else None
        of_weights = vectors @ signs.mT * scaled if ctx.needs_input_grad[1] else None
        of_vectors = (weights * scaled) @ signs if ctx.needs_input_grad[2] else None
        return of_states, of_weights, of_vectors


def _differences(states: Tensor, weights: Tensor, vectors: Tensor) -> Tensor:
    """Returns the differences [n, sources, targets, D]; for the arguments see `_BlockDistances`."""
    shape = (*weights.shape[:2], *states.shape[1:])
    differences = states.unsqueeze(1).expand(shape).clone(memory_format=torch.contiguous_format)
    # computed in place, since allocating memory for the products would take longer than the products themselves
    with torch.autocast(differences.device.type, enabled=False):
        differences.flatten(0, 1).baddbmm_(weights.flatten(0, 1).mT, vectors.flatten(0, 1), alpha=-1)
    return differences
