"""A short hash of a network's weights, which identifies the network in stored scores and results."""

from __future__ import annotations

import hashlib

import torch
from torch import nn


def weights_hash(module: nn.Module) -> str:
    """Returns 12 hex digits of the SHA-256 hash over the names and values of a module's parameters and buffers.

    Example:
        >>> zeros, ones = nn.Linear(2, 1), nn.Linear(2, 1)
        >>> for value, module in enumerate((zeros, ones)):
        ...     for parameter in module.parameters():
        ...         _ = nn.init.constant_(parameter, value)
        >>> weights_hash(zeros) == weights_hash(zeros), weights_hash(zeros) == weights_hash(ones)
        (True, False)
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:12]
