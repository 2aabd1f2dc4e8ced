"""Checks, before training, that a term has a gradient with which it can train the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lightning_xai.objectives.expected_weight import first_batch
from lightning_xai.objectives.terms.base import Term, TermValue
from lightning_xai.types import Batch


class ZeroGradient(ValueError):
    """The gradient of a term is 0 on the examples that were tried."""


def try_term(
    term: Term, values_of: Callable[[Batch], Mapping[str, TermValue]], batch: Batch, data: Any, network: nn.Module
) -> None:
    """Checks the gradient of a term on the first example of `batch` that has a weight above 0 in the term.

    If the gradient is 0, up to eight such examples are tried together, since the gradient may vanish on a single text.
    They are taken from the first training examples of `data`. For example, the softmax of explanation guidance has no
    gradient if one token has almost all attention.

    Args:
        term: the term.
        values_of: function that takes a batch and returns {name of the term: its value}, with an autograd graph.
        batch: some examples. If all of them have weight 0 in the term, nothing is checked.
        data: the data module of the fit, or None.
        network: the network that the term trains.

    Raises:
        ValueError: the values are not of shape [B], or the gradient is zero, not finite, or reaches no trainable
            weight.
    """

    def check(part: Batch) -> None:
        (value,) = values_of(part).values()
        check_term_gradient(f"term {type(term).__name__}", value.values, network, num_examples=len(part))

    one = _counting(term, batch, 1)
    if not len(one):
        return
    try:
        check(one)
    except ZeroGradient:
        further = first_batch(data)
        if further is None or not len(several := _counting(term, further.to(batch.labels.device), 8)):
            raise
        check(several)


def _counting(term: Term, batch: Batch, limit: int) -> Batch:
    return batch[(term.example_weights(batch) > 0).nonzero().flatten()[:limit]]


def check_term_gradient(subject: str, values: Tensor, network: nn.Module, *, num_examples: int = 1) -> None:
    """Checks the values of a term on some examples, and their gradient.

    Args:
        subject: name of the term in messages.
        values: [B] the term's values, with their autograd graph.
        network: the network that the term trains.
        num_examples: number B of examples.

    Raises:
        ValueError: the values are not of shape [B], or the gradient is zero, not finite, or reaches no trainable
            weight.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> check_term_gradient("term size", layer(torch.ones(1, 1)).squeeze(1), layer)
        >>> check_term_gradient("term size", torch.ones(1), layer)
        Traceback (most recent call last):
        ValueError: term size: its gradient reaches no trainable weight: do not detach values or freeze all weights
    """
    if values.shape != (num_examples,):
        raise ValueError(
            f"{subject}: its values have shape {list(values.shape)} instead of [{num_examples}]: return one value per "
            "example"
        )
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    gradients: list[Tensor] = []
    if values.requires_grad:
        all_gradients = torch.autograd.grad(values.sum(), trained, allow_unused=True)
        gradients = [gradient for gradient in all_gradients if gradient is not None]
    if not gradients:
        raise ValueError(
            f"{subject}: its gradient reaches no trainable weight: do not detach values or freeze all weights"
        )
    if not all(bool(gradient.isfinite().all()) for gradient in gradients):
        raise ValueError(
            f"{subject}: its gradient is not finite: train in float32 or bf16-mixed, or change the term's settings"
        )
    if not any(bool(gradient.any()) for gradient in gradients):
        raise ZeroGradient(
            f"{subject}: its gradient is 0, so it trains nothing: change the term's settings, or remove it"
        )
