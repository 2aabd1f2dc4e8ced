"""Refuses a term that cannot train the network, before training."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def check_term_gradient(subject: str, values: Tensor, network: nn.Module) -> None:
    """Checks the values of a term on one example, and their gradient.

    Args:
        subject: description of the term, for messages.
        values: [1] the term's values, in the graph.
        network: the network that the term trains.

    Raises:
        ValueError: the values are not [1], or the gradient is zero, not finite, or reaches no trainable weight.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> check_term_gradient("term size", layer(torch.ones(1, 1)).squeeze(1), layer)
        >>> check_term_gradient("term size", torch.ones(1), layer)
        Traceback (most recent call last):
        ValueError: term size: its gradient reaches no trainable weight: do not detach it, and unfreeze the network
    """
    if values.shape != (1,):
        raise ValueError(f"{subject}: its values have shape {list(values.shape)}, but [B] is [1]: return [B] values")
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    gradients: list[Tensor] = []
    if values.requires_grad:
        found = torch.autograd.grad(values.sum(), trained, allow_unused=True)
        gradients = [gradient for gradient in found if gradient is not None]
    if not gradients:
        raise ValueError(
            f"{subject}: its gradient reaches no trainable weight: do not detach it, and unfreeze the network"
        )
    if not all(bool(gradient.isfinite().all()) for gradient in gradients):
        raise ValueError(
            f"{subject}: its gradient is not finite: train in float32 or bf16-mixed, or change its settings"
        )
    if not any(bool(gradient.any()) for gradient in gradients):
        raise ValueError(f"{subject}: its gradient is 0, so it trains nothing: change its settings, or remove it")
