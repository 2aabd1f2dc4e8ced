"""Token scores from attention: the product of the classification head's readout and the layers' mixing matrices.

The readout holds the weights with which the classification head averages the states of the last layer. Row i of a
layer's mixing matrix holds the share that each input state of the layer has in the layer's output state i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.types import ClassifierOutput


def read_tokens(readout: Tensor, mixing: Tensor) -> Tensor:
    """Returns the classification head's weights [B, R, T] on the input states of a layer: readout @ mixing.

    Args:
        readout: [B, R, T], the classification head's weights on the output states of the layer. R = 1 if all classes
            share a row; otherwise, each class has a row.
        mixing: [B*N, S, S], one mixing matrix for each of N segments per text (N = 1 unless the model divides texts
            into segments).

    Example:
        >>> mixing = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]])
        >>> read_tokens(torch.tensor([[[1.0, 0.0]]]), mixing).tolist()  # the head reads the first state
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
    """Returns the classification head's weights [B, R, T] on the input tokens: readout @ M_L @ ... @ M_1.

    Args:
        readout: [B, R, T], the classification head's weights on the last layer's states.
        mixings: L tensors [B*N, S target, S source], the matrices M_1 ... M_L, first layer first. Row i of M_l holds
            the share of each input state of layer l in its output state i.

    Example:
        >>> mixing = torch.tensor([[[0.5, 0.5], [0.0, 1.0]]])
        >>> read_through(torch.tensor([[[1.0, 0.0]]]), [mixing, mixing]).tolist()
        [[[0.25, 0.75]]]
    """
    # from the last layer to the first: the R rows of `readout` are cheaper to multiply than whole matrices
    for mixing in reversed(mixings):
        readout = read_tokens(readout, mixing.to(readout.dtype))  # `mixing` may be in half precision
    return readout


def target_rows(readout: Tensor, targets: Tensor) -> Tensor:
    """Returns the rows [B, K, T] of `readout` [B, 1 or C, T] that belong to the classes in `targets` [B, K].

    If the readout has only one row, every class gets this row.

    Example:
        >>> target_rows(torch.tensor([[[0.5, 0.5], [0.25, 0.75]]]), torch.tensor([[1]])).tolist()
        [[[0.25, 0.75]]]
    """
    if readout.shape[1] == 1:
        return readout.expand(-1, targets.shape[1], -1)
    return readout.gather(1, targets.unsqueeze(-1).expand(-1, -1, readout.shape[-1]))


def read_for_targets(readout: Tensor, targets: Tensor, read: Callable[[Tensor], Tensor]) -> Tensor:
    """Applies `read` to the readout rows of the classes in `targets` [B, K], and returns the result [B, K, T].

    Args:
        readout: [B, 1 or C, T], the classification head's weights on the last layer's states. If all classes share one
            row, `read` is applied only once.
        targets: [B, K] long.
        read: a function that maps weights [B, R, T] on the last layer's states to weights [B, R, T] on input tokens.

    Example:
        >>> readout = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]])
        >>> read_for_targets(readout, torch.tensor([[1, 0]]), lambda rows: rows.flip(-1)).tolist()
        [[[0.75, 0.25], [0.5, 0.5]]]
    """
    if readout.shape[1] == 1:
        return target_rows(read(readout), targets)
    return read(target_rows(readout, targets))


def encoder_attentions(output: ClassifierOutput) -> tuple[Tensor, ...]:
    """Returns the encoder's attention probabilities: L tensors [B*N, H, S, S], one per layer.

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
        raise ValueError("the network returned no attentions: call its set_attention('eager'), or choose a transformer")
    return output.attentions


def token_attention(output: ClassifierOutput, targets: Tensor, *, readout_is_attention: bool) -> Tensor:
    """Returns attention weights [B, K, T] on the tokens for the classes in `targets` [B, K].

    If the classification head itself attends to tokens (`readout_is_attention`), the result is the head's attention for
    each class. Any other classification head reads the state of one token ([CLS] or the last token) or the mean of all
    states. For such a head, the result is the last layer's attention from the tokens that the head reads, averaged over
    these tokens and over attention heads. This attention is the same for every class.

    Example:
        >>> readout = torch.tensor([[[1.0, 0.0]]])  # the classification head reads the first token
        >>> attention = torch.tensor([[[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]]])  # two attention heads
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

    M_l = (1 - residual) * A_l + residual * I, where A_l is the attention of layer l, averaged over attention heads.
    Then, each row of M_l is divided by its sum.

    Args:
        readout: [B, R, T] weights with which the classification head reads the last layer's states.
        attentions: L tensors [B*N, H, S, S] of attention probabilities, first layer first.
        residual: the fraction of each state that is assumed to come from the skip connection.

    Example:
        >>> attention = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])  # both tokens attend to the second one
        >>> rollout(torch.tensor([[[1.0, 0.0]]]), [attention, attention]).tolist()
        [[[0.25, 0.75]]]
    """
    identity = torch.eye(attentions[0].shape[-1], dtype=readout.dtype, device=readout.device)
    # from the last layer to the first: the R rows of `readout` are cheaper to multiply than whole matrices
    for attention in reversed(attentions):
        mixing = (1 - residual) * attention.mean(dim=1) + residual * identity
        readout = read_tokens(readout, mixing / mixing.sum(dim=-1, keepdim=True))
    return readout
