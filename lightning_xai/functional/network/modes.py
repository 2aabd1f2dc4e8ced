"""Temporary changes to a network: eval mode, frozen parameters, eager attention, or a different output of a module."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn


class _HasAttentionKernel(Protocol):
    """The interface that `eager_attention` needs from a classifier."""

    @property
    def attention_implementation(self) -> Any: ...

    def set_attention(self, implementation: Literal["eager", "sdpa"]) -> None: ...


def call_with_known_arguments(module: nn.Module, **arguments: Tensor | None) -> Tensor:
    """Calls `module` with those arguments that are not None and are parameters of `module.forward`.

    Example:
        >>> call_with_known_arguments(nn.Identity(), input=torch.tensor(3), mask=torch.tensor(1))
        tensor(3)
    """
    names = inspect.signature(module.forward).parameters
    return module(**{name: value for name, value in arguments.items() if name in names and value is not None})


@contextmanager
def override_output(module: nn.Module, output: Tensor | None, keep: Tensor) -> Iterator[None]:
    """Within the context, makes `module` return `output` where `keep` is True, and its true output elsewhere.

    Args:
        module: any module that returns [B, T, D].
        output: [B, T, D], or None to change nothing.
        keep: [B, T] bool, True where `module` returns `output`.

    Example:
        >>> double = nn.Linear(1, 1, bias=False).requires_grad_(False)
        >>> double.weight[0, 0] = 2
        >>> with override_output(double, torch.full((1, 2, 1), 7.0), torch.tensor([[True, False]])):
        ...     double(torch.ones(1, 2, 1)).flatten().tolist()
        [7.0, 2.0]
    """
    if output is None:
        yield
        return

    def replace(_module: nn.Module, _arguments: tuple, true_output: Tensor) -> Tensor:
        return torch.where(keep.unsqueeze(-1), output.to(true_output.dtype), true_output)

    handle = module.register_forward_hook(replace)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Puts `module` and all its submodules in eval mode within the context.

    Afterwards, the mode of every submodule and the state of torch's random generator on the CPU are restored.

    Example:
        >>> network = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
        >>> with evaluation_mode(network):
        ...     network[1].training
        False
        >>> network[1].training
        True
    """
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
    """Within the context, puts `module` in eval mode, and enables all gradients except those of its parameters.

    A backward pass costs less without the gradients of parameters. Afterwards, modes and `requires_grad` flags are
    restored. The autocast setting does not change.

    Example:
        >>> layer, inputs = nn.Linear(2, 1), torch.ones(1, 2, requires_grad=True)
        >>> with frozen(layer):
        ...     layer(inputs).sum().backward()
        >>> inputs.grad is not None, layer.weight.grad is None, layer.weight.requires_grad
        (True, True, True)
    """
    flags = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    try:
        for parameter, _ in flags:
            parameter.requires_grad_(False)
        # cuDNN is off because its recurrent layers have no backward pass in eval mode (captum issue 328)
        with evaluation_mode(module), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            yield
    finally:
        for parameter, requires_grad in flags:
            parameter.requires_grad_(requires_grad)


@contextmanager
def eager_attention(network: _HasAttentionKernel, *, enabled: bool = True) -> Iterator[None]:
    """If `enabled`, makes `network` use eager attention within the context, and restores its former kernel afterwards.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> network = random_bert()
        >>> network.set_attention("sdpa")
        >>> with eager_attention(network):
        ...     network.attention_implementation
        'eager'
        >>> network.attention_implementation
        'sdpa'
    """
    before = network.attention_implementation
    if enabled:
        network.set_attention("eager")
    try:
        yield
    finally:
        if enabled:
            network.set_attention(before)


@contextmanager
def graph_or_float32(device_type: str, *, create_graph: bool) -> Iterator[None]:
    """With `create_graph`, enables gradients and leaves autocast as it is. Otherwise, disables gradients and autocast.

    Without an autograd graph, decompositions overwrite tensors in place. This works only if all results have the same
    dtype, but autocast would mix dtypes.

    Args:
        device_type: type of the computing device, such as "cpu" or "cuda". Each type has its own autocast setting.
        create_graph: whether the results are differentiated later.

    Example:
        >>> weight = torch.ones(2, 2, requires_grad=True)
        >>> with torch.autocast("cpu", torch.bfloat16), graph_or_float32("cpu", create_graph=False):
        ...     product = weight @ weight
        >>> product.dtype, product.requires_grad
        (torch.float32, False)
    """
    keeps_autocast = create_graph and torch.is_autocast_enabled(device_type)
    with torch.set_grad_enabled(create_graph), torch.autocast(device_type, enabled=keeps_autocast):
        yield
