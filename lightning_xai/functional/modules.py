"""What a network's parts are given and give back: positions, padding order, replaced outputs, modes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def position_ids(attention_mask: Tensor, *, offset: int = 0, segment_length: int | None = None) -> Tensor:
    """Returns positions [B, T] that count real tokens only, so padding anywhere leaves them unchanged.

    Args:
        attention_mask: [B, T] bool.
        offset: the first position; padding gets `offset - 1`, or 0 if there is none.
        segment_length: positions start again after so many real tokens.
    """
    positions = attention_mask.long().cumsum(dim=1) - 1
    if segment_length is not None:
        positions = positions.clamp(min=0) % segment_length
    positions = (positions + offset).clamp(min=0)
    return positions.masked_fill(~attention_mask, max(offset - 1, 0))


def right_padding_order(attention_mask: Tensor) -> Tensor | None:
    """Returns the columns [B, T] that move each row's real tokens to the front, or None if they are there already."""
    if not (attention_mask[:, 1:] & ~attention_mask[:, :-1]).any():
        return None
    return attention_mask.byte().argsort(dim=1, descending=True, stable=True)


def take_columns(tensor: Tensor, columns: Tensor) -> Tensor:
    """Returns `tensor` [B, T, ...] with each row's entries in the order `columns` [B, T]."""
    first = torch.arange(len(tensor), device=tensor.device).unsqueeze(1) * tensor.shape[1]
    # whole rows: `gather` would look every number's place up
    return tensor.flatten(0, 1).index_select(0, (first + columns).flatten()).unflatten(0, columns.shape)


def call_with_accepted(module: nn.Module, **arguments) -> Tensor:
    """Returns `module(...)` given those of the keyword arguments that its forward names and that are not None."""
    names = inspect.signature(module.forward).parameters
    return module(**{name: value for name, value in arguments.items() if name in names and value is not None})


@contextmanager
def replaced_output(module: nn.Module, output: Tensor | None, keep: Tensor) -> Iterator[None]:
    """Within the context `module` returns `output` where `keep` is True, and its own output elsewhere (padding).

    Args:
        output: [B, T, D], or None to change nothing.
        keep: [B, T] bool.
    """
    if output is None:
        yield
        return

    def replace(_module: nn.Module, _arguments: tuple, own: Tensor) -> Tensor:
        return torch.where(keep.unsqueeze(-1), output.to(own.dtype), own)

    handle = module.register_forward_hook(replace)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Within the context all of `module` is in eval mode; each part's own mode and the RNG are restored after."""
    modes = [(part, part.training) for part in module.modules()]
    with torch.random.fork_rng(devices=[]):
        module.eval()
        try:
            yield
        finally:
            for part, training in modes:
                part.training = training


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Runs the body in eval mode with gradients on, but none for parameters, then restores every flag; autocast stays.

    What is differentiated inside is inputs; leaving parameters out saves their gradients' cost.
    """
    flags = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    try:
        for parameter, _ in flags:
            parameter.requires_grad_(False)
        # cuDNN's RNN backward needs train mode; switching cuDNN off keeps eval semantics (captum #328)
        with evaluation_mode(module), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            yield
    finally:
        for parameter, requires_grad in flags:
            parameter.requires_grad_(requires_grad)


@contextmanager
def eager_attention(network: nn.Module, *, wanted: bool = True) -> Iterator[None]:
    """Runs the body with eager attention if that is wanted, then goes back to the classifier's own kernel."""
    before = network.attention_implementation
    if wanted:
        network.set_attention("eager")
    try:
        yield
    finally:
        if wanted:
            network.set_attention(before)
