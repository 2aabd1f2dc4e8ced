"""A short name for the values of weights."""

from __future__ import annotations

import hashlib

import torch
from torch import nn


def weights_hash(module: nn.Module) -> str:
    """Returns 12 hex digits of the SHA-256 of a module's parameters and buffers with their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:12]
