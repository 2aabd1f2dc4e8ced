"""Token scores from attention weights: mixing matrices, and reading them as a head reads token states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.types import ClassifierOutput


def read_tokens(readout: Tensor, mixing: Tensor) -> Tensor:
    """Returns readout @ mixing [B, R, T]: the weight of every input token in the state that the head reads.

    Args:
        readout: [B, R, T] weights of token states, R rows for one head or for chosen classes.
        mixing: [B*N, S, S] share of input token j in state i, segment by segment (N = 1 unless the model segments).

    Example:
        >>> mixing = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]])
        >>> read_tokens(torch.tensor([[[1.0, 0.0]]]), mixing).tolist()  # a head that reads the first state
        [[[0.5, 0.5]]]
    """
    batch, num_rows, num_tokens = readout.shape
    size = mixing.shape[-1]
    num_segments = mixing.shape[0] // batch
    padded = F.pad(readout, (0, num_segments * size - num_tokens))
    by_segment = padded.view(batch, num_rows, num_segments, size).transpose(1, 2)  # [B, N, R, S]
    read = by_segment @ mixing.view(batch, num_segments, size, size)
    return read.transpose(1, 2).reshape(batch, num_rows, num_segments * size)[..., :num_tokens]


def read_through(readout: Tensor, mixings: Sequence[Tensor]) -> Tensor:
    """Returns readout @ M_L @ ... @ M_1 [B, R, T]: the input tokens' weights in the states that the head reads.

    Args:
        readout: [B, R, T] weights of the last layer's states.
        mixings: L x [M, S target, S source], the mixing matrices M_1 ... M_L, first layer first.

    Example:
        >>> mixing = torch.tensor([[[0.5, 0.5], [0.0, 1.0]]])
        >>> read_through(torch.tensor([[[1.0, 0.0]]]), [mixing, mixing]).tolist()
        [[[0.25, 0.75]]]
    """
    for mixing in reversed(mixings):  # rows times matrices: cheaper than the product of the matrices
        readout = read_tokens(readout, mixing.to(readout.dtype))  # a mixing may be in half precision
    return readout


def target_rows(readout: Tensor, targets: Tensor) -> Tensor:
    """Returns the rows [B, K, T] of `readout` [B, 1 or C, T] that belong to `targets` [B, K].

    Example:
        >>> target_rows(torch.tensor([[[0.5, 0.5], [0.25, 0.75]]]), torch.tensor([[1]])).tolist()
        [[[0.25, 0.75]]]
    """
    if readout.shape[1] == 1:
        return readout.expand(-1, targets.shape[1], -1)
    return readout.gather(1, targets.unsqueeze(-1).expand(-1, -1, readout.shape[-1]))


def read_for_targets(readout: Tensor, targets: Tensor, read: Callable[[Tensor], Tensor]) -> Tensor:
    """Returns `read(readout row)` [B, K, T] for each of `targets` [B, K].

    Args:
        readout: [B, 1 or C, T]. A row that all classes share is read once.
        targets: [B, K] long.
        read: maps rows [B, R, T] of weights of token states to weights [B, R, T] of input tokens.

    Example:
        >>> readout = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]])
        >>> read_for_targets(readout, torch.tensor([[1, 0]]), lambda rows: rows.flip(-1)).tolist()
        [[[0.75, 0.25], [0.5, 0.5]]]
    """
    if readout.shape[1] == 1:
        return target_rows(read(readout), targets)
    return read(target_rows(readout, targets))


def encoder_attentions(output: ClassifierOutput) -> tuple[Tensor, ...]:
    """Returns the encoder's attentions, L x [B*N, H, S, S].

    Raises:
        ValueError: the forward pass returned no attentions.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> output = random_bert()(TextInputs.of_ids([[1, 5, 6]]), output_attentions=True)
        >>> [tuple(attention.shape) for attention in encoder_attentions(output)]
        [(1, 2, 3, 3)]
    """
    if not output.attentions:
        raise ValueError("the network returned no attentions: call set_attention('eager'), or choose a transformer")
    return output.attentions


def token_attention(output: ClassifierOutput, targets: Tensor, *, readout_is_attention: bool) -> Tensor:
    """Returns the attention [B, K, T] with which the head reads tokens for `targets` [B, K].

    Where the head attends to tokens, this is the class's row of its attention. Elsewhere it is the row of the last
    layer's attention, averaged over heads, at the token that the head reads ([CLS] or the last token): the same for
    every class.

    Example:
        >>> readout = torch.tensor([[[1.0, 0.0]]])  # the head reads the first token
        >>> attention = torch.tensor([[[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]]])  # of two heads
        >>> output = ClassifierOutput(torch.zeros(1, 2), readout, (attention,))
        >>> token_attention(output, torch.tensor([[0]]), readout_is_attention=False).tolist()
        [[[0.25, 0.75]]]
    """
    if readout_is_attention:
        return target_rows(output.readout, targets)
    mixing = encoder_attentions(output)[-1].mean(dim=1)
    return target_rows(read_tokens(output.readout, mixing), targets)


def rollout(readout: Tensor, attentions: Sequence[Tensor], *, residual: float = 0.5) -> Tensor:
    """Returns the attention rollout [B, R, T]: readout @ M_L @ ... @ M_1.

    M_l = (1 - residual) * A_l + residual * I, where A_l is the attention of layer l averaged over heads; rows of M_l
    are normalized to sum to 1.

    Args:
        readout: [B, R, T] weights with which the head reads the last layer's states.
        attentions: L x [B*N, H, S, S], first layer first.
        residual: fraction of a state that the skip connection carries.

    Example:
        >>> attention = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])  # both tokens attend to the second
        >>> rollout(torch.tensor([[[1.0, 0.0]]]), [attention, attention]).tolist()
        [[[0.25, 0.75]]]
    """
    identity = torch.eye(attentions[0].shape[-1], dtype=readout.dtype, device=readout.device)
    for attention in reversed(attentions):  # rows times matrices: cheaper than the product of the matrices
        mixing = (1 - residual) * attention.mean(dim=1) + residual * identity
        readout = read_tokens(readout, mixing / mixing.sum(dim=-1, keepdim=True))
    return readout
