"""Chooses what computes LSTMs: the libraries cuDNN and oneDNN, or PyTorch's plain kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def fused_kernels(*, cudnn: bool, onednn: bool) -> Iterator[None]:
    """Within the context, sets whether cuDNN and oneDNN may run LSTMs. A library that is already off stays off.

    Example:
        >>> with fused_kernels(cudnn=False, onednn=False):
        ...     torch.backends.mkldnn.enabled
        False
    """
    onednn_backend: Any = torch.backends.mkldnn
    before = onednn_backend.enabled
    onednn_backend.enabled = before and onednn
    try:
        with torch.backends.cudnn.flags(enabled=cudnn and torch.backends.cudnn.enabled):
            yield
    finally:
        onednn_backend.enabled = before


def onednn_computes(dtype: torch.dtype) -> bool:
    """Returns whether oneDNN can compute LSTMs in this dtype on this processor.

    For half precision, oneDNN needs AVX-512 or AMX instructions, which many processors lack. Without them, oneDNN's
    LSTM raises an error instead of using the plain kernels.

    Example:
        >>> onednn_computes(torch.float32)
        True
    """
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    if dtype == torch.float16:
        return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    return True
