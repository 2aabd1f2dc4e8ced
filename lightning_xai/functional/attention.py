"""What attention weights say about tokens: mixing matrices, and reading them the way a head reads token states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.types import ClassifierOutput


def read_tokens(readout: Tensor, mixing: Tensor) -> Tensor:
    """Returns readout @ mixing [B, R, T]: the weight of every input token in what the head reads.

    Args:
        readout: [B, R, T] weights of token states, R rows for one head or for chosen classes.
        mixing: [B*N, S, S] share of input token j in state i, segment by segment (N = 1 unless the model segments).
    """
    batch, num_rows, num_tokens = readout.shape
    size = mixing.shape[-1]
    num_segments = mixing.shape[0] // batch
    padded = F.pad(readout, (0, num_segments * size - num_tokens))
    by_segment = padded.view(batch, num_rows, num_segments, size).transpose(1, 2)  # [B, N, R, S]
    read = by_segment @ mixing.view(batch, num_segments, size, size)
    return read.transpose(1, 2).reshape(batch, num_rows, num_segments * size)[..., :num_tokens]


def target_rows(readout: Tensor, targets: Tensor) -> Tensor:
    """Returns the rows [B, K, T] of `readout` [B, 1 or C, T] that belong to `targets` [B, K]."""
    if readout.shape[1] == 1:
        return readout.expand(-1, targets.shape[1], -1)
    return readout.gather(1, targets.unsqueeze(-1).expand(-1, -1, readout.shape[-1]))


def follow_readout(readout: Tensor, targets: Tensor, follow: Callable[[Tensor], Tensor]) -> Tensor:
    """Returns `follow` of the readout [B, 1 or C, T] for `targets` [B, K]: [B, K, T].

    Args:
        follow: from rows [B, R, T] to what they read of the input tokens; a row that all classes share goes once.
    """
    if readout.shape[1] == 1:
        return target_rows(follow(readout), targets)
    return follow(target_rows(readout, targets))


def encoder_attentions(output: ClassifierOutput) -> tuple[Tensor, ...]:
    """Returns the encoder's attentions, L x [B*N, H, S, S].

    Raises:
        ValueError: the forward pass gave none.
    """
    if not output.attentions:
        raise ValueError("the network returned no attentions: call set_attention('eager'), or choose a transformer")
    return output.attentions


def token_attention(output: ClassifierOutput, targets: Tensor, *, readout_is_attention: bool) -> Tensor:
    """Returns the attention [B, K, T] with which the head reads tokens for `targets` [B, K].

    It is the class's own row where the head attends to tokens; elsewhere it is the row of the last layer, averaged over
    heads, from which the head reads ([CLS] or the last token), the same for every class.
    """
    if readout_is_attention:
        return target_rows(output.readout, targets)
    mixing = encoder_attentions(output)[-1].mean(dim=1)
    return target_rows(read_tokens(output.readout, mixing), targets)


def rollout(readout: Tensor, attentions: Sequence[Tensor], *, residual: float = 0.5) -> Tensor:
    """Returns the attention rollout [B, R, T] as seen by `readout` [B, R, T].

    Args:
        attentions: L x [B*N, H, S, S], first layer first.
        residual: fraction of a state that the skip connection carries; (A + I) / 2 at 0.5.
    """
    identity = torch.eye(attentions[0].shape[-1], dtype=readout.dtype, device=readout.device)
    for attention in reversed(attentions):  # rows times matrices: cheaper than the product of the matrices
        mixing = (1 - residual) * attention.mean(dim=1) + residual * identity
        readout = read_tokens(readout, mixing / mixing.sum(dim=-1, keepdim=True))
    return readout
