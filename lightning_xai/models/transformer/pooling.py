"""The weights with which a classification head reads token states."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

HeadPooling = Literal["cls", "mean", "last"]


def pooling_readout(attention_mask: Tensor, *, pooling: HeadPooling, dtype: torch.dtype) -> Tensor:
    """Returns the weights [B, 1, T] with which a head averages token states. They sum to 1 if the text has tokens.

    Args:
        attention_mask: [B, T] bool, False at padding.
        pooling: "cls" reads the first token, "last" the last token, "mean" all tokens with equal weights.

    Example:
        >>> mask = torch.tensor([[True, True, False]])
        >>> pooling_readout(mask, pooling="mean", dtype=torch.float32).tolist()
        [[[0.5, 0.5, 0.0]]]
        >>> pooling_readout(mask, pooling="last", dtype=torch.float32).tolist()
        [[[0.0, 1.0, 0.0]]]
    """
    if pooling == "mean":
        weights = attention_mask.to(dtype) / attention_mask.sum(dim=1, keepdim=True).clamp(min=1)
    else:
        num_tokens = attention_mask.shape[1]
        if pooling == "cls":
            column = attention_mask.byte().argmax(dim=1)
        else:
            column = num_tokens - 1 - attention_mask.byte().flip(1).argmax(dim=1)
        weights = F.one_hot(column, num_tokens).to(dtype)
    return weights.unsqueeze(1)
