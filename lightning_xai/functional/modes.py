"""A network in another mode for a while: evaluated, frozen, with eager attention, or with one output replaced."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


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
