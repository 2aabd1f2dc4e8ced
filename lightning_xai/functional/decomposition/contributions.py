"""How much each source token's vector makes of a state, without forming a vector for every pair of tokens.

One layer's attention gives target i the vector T_ij = sum_h A^h_ij U_jh from source j, and its own state beside it
(T_ii += own_i). `vectors` are the U_jh, what head h makes of source j after output matrix and linear maps behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lightning_xai.functional.attention import read_tokens
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, LayerTrace

Norm = Literal["l1", "l2"]


def layer_norm_deviation(norm: nn.LayerNorm, states: Tensor) -> Tensor:
    """Returns what `norm` divides states [..., D] by, [..., 1]; it is held fixed where a LayerNorm is linearized."""
    return (states.var(dim=-1, correction=0, keepdim=True) + norm.eps).sqrt()


def centered_scaled(norm: nn.LayerNorm, vectors: Tensor) -> Tensor:
    """Returns what `norm` makes of parts [..., D] of a state, apart from the deviation and from its bias."""
    return norm.weight * (vectors - vectors.mean(dim=-1, keepdim=True))


def source_vectors(layer: EncoderLayer, trace: LayerTrace, norms: Sequence[nn.LayerNorm]) -> tuple[Tensor, Tensor]:
    """Returns `vectors` [M, S, H, D] and `own` [M, S, D] of one layer after `norms`, whose deviations are left out.

    Value biases are in the vectors, the output bias is in neither.

    Args:
        norms: LayerNorms that follow the attention block, in this order.
    """
    weight = layer.output.weight.t()  # [H * head size, D]
    own = trace.hidden
    for norm in norms:  # on the matrix, which is smaller than the vectors
        weight, own = centered_scaled(norm, weight), centered_scaled(norm, own)
    weight = weight.unflatten(0, (layer.num_heads, -1))
    return torch.einsum("mhsd,hde->mshe", trace.values, weight).contiguous(), own


def read_through(readout: Tensor, mixings: Sequence[Tensor]) -> Tensor:
    """Returns the product of all layers' mixing matrices [B, R, T] as seen by `readout` [B, R, T].

    Args:
        mixings: L x [M, S target, S source], first layer first.
    """
    for mixing in reversed(mixings):  # rows times matrices: cheaper than the product of the matrices
        # of half precision where the readout is not
        readout = read_tokens(readout, mixing.to(readout.dtype))
    return readout


def by_source(attention: Tensor) -> Tensor:
    """Returns `attention` [N, H, S target, S source] laid out as [N, S source, H, S target]."""
    # panels of few sources in two steps: one step takes a cache line for every number, 3 times slower at 1,024 tokens
    panels = [panel.contiguous().permute(0, 3, 1, 2).contiguous() for panel in attention.split(32, dim=-1)]
    return torch.cat(panels, dim=1)


def own_vectors(attention: Tensor, vectors: Tensor, own: Tensor) -> Tensor:
    """Returns T_ii [N, S, D], what target i gets from itself.

    Args:
        attention: [N, H, S, S].
        vectors: [N, S, H, D].
        own: [N, S, D] part that does not pass through attention.
    """
    weights = attention.diagonal(dim1=-2, dim2=-1).transpose(1, 2).unsqueeze(2)  # [N, S, 1, H]
    return (weights @ vectors).squeeze(2) + own


def squared_mixed_norms(attention: Tensor, vectors: Tensor) -> Tensor:
    """Returns |sum_h A^h_ij U_jh|^2 [N, S target, S source] from inner products of heads, S * S * H * H products.

    Args:
        attention: [N, H, S, S].
        vectors: [N, S, H, D].
    """
    weights = by_source(attention)
    gram = vectors @ vectors.transpose(-1, -2)  # [N, S, H, H]
    squares = (gram @ weights * weights).sum(dim=2)  # [N, S source, S target]
    return squares.transpose(1, 2).clamp(min=0)  # rounding may leave a small negative number


def with_diagonal(matrix: Tensor, diagonal: Tensor) -> Tensor:
    """Returns `matrix` [N, S, S] with the entries `diagonal` [N, S] on its diagonal."""
    return torch.diagonal_scatter(matrix, diagonal.to(matrix.dtype), dim1=-2, dim2=-1)


def safe_sqrt(squares: Tensor) -> Tensor:
    """Returns square roots whose gradient at 0 is 0 instead of infinite."""
    positive = squares > 0
    return squares.where(positive, 1.0).sqrt() * positive


def transformed_norms(attention: Tensor, vectors: Tensor, own: Tensor) -> Tensor:
    """Returns L2 norms |T_ij| [N, S target, S source].

    Args:
        attention: [N, H, S, S].
        vectors: [N, S, H, D].
        own: [N, S, D].
    """
    diagonal = own_vectors(attention, vectors, own).square().sum(dim=-1)
    return safe_sqrt(with_diagonal(squared_mixed_norms(attention, vectors), diagonal))


def l2_distances(attention: Tensor, vectors: Tensor, own: Tensor, resultants: Tensor) -> Tensor:
    """Returns |y_i - T_ij|_2 [N, S target, S source] by inner products.

    Args:
        attention: [N, H, S, S].
        vectors: [N, S, H, D].
        own: [N, S, D].
        resultants: [N, S, D], the y_i.
    """
    products = resultants @ vectors.flatten(1, 2).transpose(1, 2)  # [N, S target, S source * H]
    products = products.unflatten(-1, vectors.shape[1:3])
    products = (products * attention.permute(0, 2, 3, 1)).sum(dim=-1)
    lengths = resultants.square().sum(dim=-1, keepdim=True)
    squares = (lengths - 2 * products + squared_mixed_norms(attention, vectors)).clamp(min=0)
    diagonal = (resultants - own_vectors(attention, vectors, own)).square().sum(dim=-1)
    return safe_sqrt(with_diagonal(squares, diagonal))


def l1_distances(
    attention: Tensor, vectors: Tensor, own: Tensor, resultants: Tensor, *, chunk_elements: int | None = None
) -> Tensor:
    """Returns |y_i - T_ij|_1 [N, S target, S source], a block of targets and sources at a time.

    Args:
        attention: [N, H, S, S].
        vectors: [N, S, H, D].
        own: [N, S, D].
        resultants: [N, S, D], the y_i.
        chunk_elements: most numbers in a block of difference vectors. None fits them into a processor's cache, where
            the sum costs far less than from memory, or keeps a GPU busy. It changes no result.
    """
    num_rows, size, _, dim = vectors.shape
    if chunk_elements is None:
        chunk_elements = 2**18 if vectors.device.type == "cpu" else 2**26
    num_targets = min(size, 128)  # fewer make thin products, more leave no room for several sources
    rows = max(chunk_elements // (size * size * dim), 1)
    sources = max(chunk_elements // (rows * num_targets * dim), 1)
    weights = by_source(attention)
    parts = []
    for row in range(0, num_rows, rows):
        columns = []
        for source in range(0, size, sources):
            block = slice(row, row + rows), slice(source, source + sources)
            blocks = [
                _block_distances(targets.unsqueeze(1), mixing, vectors[block])
                for targets, mixing in zip(
                    resultants[row : row + rows].split(num_targets, dim=1),
                    weights[block].split(num_targets, dim=-1),
                    strict=True,
                )
            ]
            columns.append(torch.cat(blocks, dim=-1))
        parts.append(torch.cat(columns, dim=1))
    distances = torch.cat(parts).transpose(1, 2)
    diagonal = (resultants - own_vectors(attention, vectors, own)).abs().sum(dim=-1)
    return with_diagonal(distances, diagonal)


def _block_distances(targets: Tensor, weights: Tensor, vectors: Tensor) -> Tensor:
    """Returns |y_i - sum_h A^h_ij U_jh|_1 [n, sources, targets].

    Args:
        targets: [n, 1, targets, D], the y_i.
        weights: [n, sources, H, targets].
        vectors: [n, sources, H, D].
    """
    if torch.is_grad_enabled():  # differences are formed again in the backward pass, never held for all pairs
        return checkpoint(_form_distances, targets, weights, vectors, use_reentrant=False)
    return _form_distances(targets, weights, vectors)


def _form_distances(targets: Tensor, weights: Tensor, vectors: Tensor) -> Tensor:
    shape = (*weights.shape[:2], *targets.shape[2:])  # [n, sources, targets, D]
    differences = targets.expand(shape).clone(memory_format=torch.contiguous_format).flatten(0, 1)
    # in place, as three passes over a block cost more than its product
    differences.baddbmm_(weights.flatten(0, 1).transpose(1, 2), vectors.flatten(0, 1), alpha=-1)
    return differences.abs_().sum(dim=-1).view(shape[:3])


def alti_contributions(attention: Tensor, vectors: Tensor, own: Tensor, resultants: Tensor, *, norm: Norm) -> Tensor:
    """Returns ALTI's contributions [N, S target, S source] of sources to targets; rows sum to one.

    c_ij = max(0, |y_i| - |y_i - T_ij|) / sum_j: how much nearer source j's vector brings the state. A common factor of
    y_i and T_ij (the scale of a LayerNorm) cancels. Where no source brings it nearer, target i gets all from itself.

    Args:
        attention: [N, H, S, S], rows sum to one.
        vectors: [N, S, H, D].
        own: [N, S, D], what the residual connection adds to T_ii.
        resultants: [N, S, D], the y_i.
        norm: of the distance.
    """
    if norm == "l1":
        lengths, distances = resultants.abs().sum(dim=-1), l1_distances(attention, vectors, own, resultants)
    else:
        lengths, distances = resultants.norm(dim=-1), l2_distances(attention, vectors, own, resultants)
    nearer = (lengths.unsqueeze(-1) - distances).clamp(min=0)
    total = nearer.sum(dim=-1, keepdim=True)
    identity = torch.eye(nearer.shape[-1], dtype=nearer.dtype, device=nearer.device)
    return torch.where(total > 0, nearer / total.where(total > 0, 1.0), identity)
