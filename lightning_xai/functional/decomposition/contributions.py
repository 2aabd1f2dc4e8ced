"""Computes how much each source token contributes to each token's state, without storing a vector per pair of tokens.

The attention of one layer moves the vector T_ij = sum_h A^h_ij U_jh from source j to target i. A^h is the attention of
head h. U_jh (in the code: `vectors`) is the value vector of source j in head h, multiplied by the output matrix and by
the linear maps that follow it. The residual connection adds `residual_i` to T_ii.

All vectors T_ij together have S * S * D elements, which do not fit in memory. Their norms, and their distances from the
target's state y_i, are therefore computed from inner products of the U_jh, or for one block of pairs at a time.
Letters: N rows (texts or segments), H attention heads, S tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn

from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, LayerTrace
from lightning_xai.functional.decomposition.pair_distances import by_source, l1_pair_distances

Norm = Literal["l1", "l2"]


def layer_norm_deviation(norm: nn.LayerNorm, states: Tensor) -> Tensor:
    """Returns the standard deviation [..., 1] by which `norm` divides states [..., D].

    Methods that linearize the LayerNorm treat this deviation as a constant.

    Example:
        >>> layer_norm_deviation(nn.LayerNorm(2, eps=0.0), torch.tensor([[1.0, 3.0]]))
        tensor([[1.]])
    """
    return (states.var(dim=-1, correction=0, keepdim=True) + norm.eps).sqrt()


def normalize_without_deviation(norm: nn.LayerNorm, vectors: Tensor) -> Tensor:
    """Centers vectors [..., D] and multiplies them by the weight of `norm`. Ignores the norm's deviation and bias.

    Example:
        >>> normalize_without_deviation(nn.LayerNorm(2), torch.tensor([[1.0, 5.0]])).tolist()
        [[-2.0, 2.0]]
    """
    return norm.weight * (vectors - vectors.mean(dim=-1, keepdim=True))


def source_vectors(layer: EncoderLayer, trace: LayerTrace, norms: Sequence[nn.Module]) -> tuple[Tensor, Tensor]:
    """Returns the vectors U [N, S, H, D] and the residual vectors [N, S, D] of one layer, after applying `norms`.

    U holds the value vectors of all heads, including value biases, multiplied by the output matrix. The residual
    vectors are the layer's input states. The norms do not divide by standard deviations. Neither result includes the
    output bias or a norm's bias.

    Args:
        layer: the layer.
        trace: the layer's intermediate results in a forward pass.
        norms: LayerNorms that follow the attention block, in the order in which they are applied.

    Example:
        >>> from lightning_xai.functional.decomposition.encoder_layer import trace_layers
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6]])
        >>> output, layers = model(inputs, output_attentions=True, output_hidden_states=True), model.encoder_layers()
        >>> (trace,) = trace_layers(layers, output, inputs.attention_mask)
        >>> vectors, residual = source_vectors(layers[0], trace, [])
        >>> sums = torch.einsum("nhij,njhd->nid", trace.attention, vectors) + residual
        >>> torch.allclose(sums, trace.attention_sum, atol=1e-5)  # this network's biases are 0
        True
    """
    weight = layer.output.weight.t()  # [H * head size, D]
    residual = trace.hidden
    for norm in norms:  # the norms are applied to the output matrix, because it is smaller than the vectors
        norm = cast(nn.LayerNorm, norm)
        weight, residual = normalize_without_deviation(norm, weight), normalize_without_deviation(norm, residual)
    weight = weight.unflatten(0, (layer.num_heads, -1))
    return torch.einsum("mhsd,hde->mshe", trace.values, weight).contiguous(), residual


def diagonal_vectors(attention: Tensor, vectors: Tensor, residual: Tensor) -> Tensor:
    """Returns T_ii [N, S, D], the part of each token's state that comes from the token itself.

    Args:
        attention: [N, H, S target, S source], the attention probabilities A.
        vectors: [N, S, H, D], the vectors U.
        residual: [N, S, D], the vectors that the residual connection adds to the states.

    Example:
        >>> attention = torch.tensor([[[[0.5, 0.5], [0.25, 0.75]]]])
        >>> diagonal_vectors(attention, torch.tensor([[[[2.0]], [[4.0]]]]), torch.ones(1, 2, 1)).flatten().tolist()
        [2.0, 4.0]
    """
    weights = attention.diagonal(dim1=-2, dim2=-1).transpose(1, 2).unsqueeze(2)  # [N, S, 1, H]
    return (weights @ vectors).squeeze(2) + residual


def squared_mixed_norms(attention: Tensor, vectors: Tensor) -> Tensor:
    """Returns the squared L2 norms [N, S target, S source] of sum_h A^h_ij U_jh, without computing these vectors.

    Each square is computed as sum_h sum_k A^h_ij A^k_ij (U_jh . U_jk), a sum over pairs of heads.

    Args:
        attention: [N, H, S target, S source], the attention probabilities A.
        vectors: [N, S, H, D], the vectors U.

    Example:
        >>> attention = torch.tensor([[[[0.5, 0.5], [0.0, 1.0]]]])
        >>> squared_mixed_norms(attention, torch.tensor([[[[2.0]], [[4.0]]]])).tolist()
        [[[1.0, 4.0], [0.0, 16.0]]]
    """
    weights = by_source(attention)
    gram = vectors @ vectors.transpose(-1, -2)  # [N, S, H, H]
    squares = (gram @ weights * weights).sum(dim=2)  # [N, S source, S target]
    return squares.transpose(1, 2).clamp(min=0)  # rounding may give a small negative number


def with_diagonal(matrix: Tensor, diagonal: Tensor) -> Tensor:
    """Returns `matrix` [N, S, S] with the entries `diagonal` [N, S] on its diagonal.

    Example:
        >>> with_diagonal(torch.zeros(1, 2, 2), torch.tensor([[3.0, 4.0]])).tolist()
        [[[3.0, 0.0], [0.0, 4.0]]]
    """
    return torch.diagonal_scatter(matrix, diagonal.to(matrix.dtype), dim1=-2, dim2=-1)


def safe_sqrt(squares: Tensor) -> Tensor:
    """Returns square roots whose gradient at 0 is 0 instead of infinite.

    Example:
        >>> squares = torch.tensor([0.0, 4.0], requires_grad=True)
        >>> safe_sqrt(squares).sum().backward()
        >>> squares.grad.tolist()
        [0.0, 0.25]
    """
    positive = squares > 0
    return squares.where(positive, 1.0).sqrt() * positive


def transformed_norms(attention: Tensor, vectors: Tensor, residual: Tensor) -> Tensor:
    """Returns the L2 norms [N, S target, S source] of T_ij, the vector that source j adds to the state of target i.

    Args:
        attention: [N, H, S target, S source], the attention probabilities A.
        vectors: [N, S, H, D], the vectors U.
        residual: [N, S, D], the vectors that the residual connection adds to the states.

    Example:
        >>> attention = torch.tensor([[[[0.5, 0.5], [0.0, 1.0]]]])
        >>> transformed_norms(attention, torch.tensor([[[[2.0]], [[4.0]]]]), torch.ones(1, 2, 1)).tolist()
        [[[2.0, 2.0], [0.0, 5.0]]]
    """
    diagonal = diagonal_vectors(attention, vectors, residual).square().sum(dim=-1)
    return safe_sqrt(with_diagonal(squared_mixed_norms(attention, vectors), diagonal))


def l1_distances(attention: Tensor, vectors: Tensor, residual: Tensor, resultants: Tensor) -> Tensor:
    """Returns the L1 distances [N, S target, S source] between the state y_i of target i and each vector T_ij.

    T_ij is what source j adds to y_i.

    Args:
        attention: [N, H, S target, S source], the attention probabilities A.
        vectors: [N, S, H, D], the vectors U.
        residual: [N, S, D], the vectors that the residual connection adds to the states.
        resultants: [N, S, D], the states y_i.

    Example:
        >>> attention = torch.tensor([[[[0.5, 0.5], [0.0, 1.0]]]])  # T = [[1, 2], [0, 4]]
        >>> vectors, residual = torch.tensor([[[[2.0]], [[4.0]]]]), torch.zeros(1, 2, 1)
        >>> l1_distances(attention, vectors, residual, torch.tensor([[[3.0], [4.0]]])).tolist()
        [[[2.0, 1.0], [4.0, 0.0]]]
    """
    diagonal = (resultants - diagonal_vectors(attention, vectors, residual)).abs().sum(dim=-1)
    return with_diagonal(l1_pair_distances(attention, vectors, resultants), diagonal)


def l2_distances(attention: Tensor, vectors: Tensor, residual: Tensor, resultants: Tensor) -> Tensor:
    """Returns the L2 distances [N, S target, S source] between the state y_i of target i and each vector T_ij.

    T_ij is what source j adds to y_i. Each distance is computed as sqrt(|y_i|^2 - 2 y_i . T_ij + |T_ij|^2).

    Args:
        attention: [N, H, S target, S source], the attention probabilities A.
        vectors: [N, S, H, D], the vectors U.
        residual: [N, S, D], the vectors that the residual connection adds to the states.
        resultants: [N, S, D], the states y_i.

    Example:
        >>> attention = torch.tensor([[[[0.5, 0.5], [0.0, 1.0]]]])  # T = [[1, 2], [0, 4]]
        >>> vectors, residual = torch.tensor([[[[2.0]], [[4.0]]]]), torch.zeros(1, 2, 1)
        >>> l2_distances(attention, vectors, residual, torch.tensor([[[3.0], [4.0]]])).tolist()
        [[[2.0, 1.0], [4.0, 0.0]]]
    """
    products = resultants @ vectors.flatten(1, 2).transpose(1, 2)  # [N, S target, S source * H]
    products = products.unflatten(-1, vectors.shape[1:3])
    products = (products * attention.permute(0, 2, 3, 1)).sum(dim=-1)
    lengths = resultants.square().sum(dim=-1, keepdim=True)
    squares = (lengths - 2 * products + squared_mixed_norms(attention, vectors)).clamp(min=0)
    diagonal = (resultants - diagonal_vectors(attention, vectors, residual)).square().sum(dim=-1)
    return safe_sqrt(with_diagonal(squares, diagonal))


def alti_contributions(
    attention: Tensor, vectors: Tensor, residual: Tensor, resultants: Tensor, *, norm: Norm
) -> Tensor:
    """Returns ALTI's contributions [N, S target, S source] of sources to targets; rows sum to 1.

    T_ij is the vector that source j adds to the state y_i of target i. The term max(0, |y_i| - |y_i - T_ij|) measures
    how much closer T_ij is to y_i than the zero vector is. The contribution c_ij is this term divided by its sum over
    j, so a common factor, such as a LayerNorm's scale, cancels out. If all terms of target i are 0, c_ii = 1.

    Args:
        attention: [N, H, S target, S source], the attention probabilities A; rows sum to 1.
        vectors: [N, S, H, D], the vectors U.
        residual: [N, S, D], the vectors that the residual connection adds to the states.
        resultants: [N, S, D], the states y_i: the sum of T_ij over j, plus biases.
        norm: "l1" or "l2", the norm in which lengths and distances are measured.

    Example:
        >>> attention = torch.tensor([[[[0.5, 0.5], [0.0, 1.0]]]])  # T = [[1, 2], [0, 4]]
        >>> vectors, residual = torch.tensor([[[[2.0]], [[4.0]]]]), torch.zeros(1, 2, 1)
        >>> resultants = torch.tensor([[[4.0], [4.0]]])  # distances [[3, 2], [4, 0]]
        >>> alti_contributions(attention, vectors, residual, resultants, norm="l1").round(decimals=2)
        tensor([[[0.3300, 0.6700],
                 [0.0000, 1.0000]]])
    """
    if norm == "l1":
        lengths, distances = resultants.abs().sum(dim=-1), l1_distances(attention, vectors, residual, resultants)
    else:
        lengths, distances = resultants.norm(dim=-1), l2_distances(attention, vectors, residual, resultants)
    nearer = (lengths.unsqueeze(-1) - distances).clamp(min=0)
    total = nearer.sum(dim=-1, keepdim=True)
    identity = torch.eye(nearer.shape[-1], dtype=nearer.dtype, device=nearer.device)
    return torch.where(total > 0, nearer / total.where(total > 0, 1.0), identity)
