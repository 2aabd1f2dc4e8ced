"""Gradient checkpointing in eval mode. Hugging Face networks themselves use checkpointing only in train mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


@contextmanager
def layers_recomputed(network: nn.Module) -> Iterator[None]:
    """Within the context, extends gradient checkpointing to eval mode, in the layers that use it in train mode.

    A backward pass then needs less memory, but also repeats the forward pass. Networks without such layers are left
    unchanged.

    Args:
        network: any network. A layer uses gradient checkpointing if its attribute `gradient_checkpointing` is True.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> network = random_bert()
        >>> layer = network.transformer.bert.encoder.layer[0]
        >>> layer.gradient_checkpointing = True
        >>> with layers_recomputed(network):
        ...     "forward" in vars(layer)  # its forward pass is replaced
        True
        >>> "forward" in vars(layer)
        False
    """
    flagged = [part for part in network.modules() if getattr(part, "gradient_checkpointing", False) is True]
    # keeps the innermost modules: those that contain no other module with this attribute
    layers = [part for part in flagged if sum(inner in flagged for inner in part.modules()) == 1]
    layers = [layer for layer in layers if "forward" not in vars(layer)]  # skips layers with a replaced `forward`
    for layer in layers:
        layer.forward = partial(_recomputed, layer, layer.forward)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _recomputed(layer: nn.Module, forward: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Returns `forward(*arguments, **options)`. In eval mode, the call is checkpointed if gradients are on."""
    # a layer with a key-value cache is not recomputed, since it would write into the cache twice. The cache may be any
    # of the arguments, because its name differs between layers
    cached = any(hasattr(value, "get_seq_length") for value in (*arguments, *options.values()))
    if layer.training or cached or not torch.is_grad_enabled():
        return forward(*arguments, **options)
    return checkpoint(partial(forward, **options), *arguments, use_reentrant=False)
