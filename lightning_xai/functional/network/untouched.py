"""Context managers that restore random generators, networks or objects, and one that returns freed memory."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called",
)  # fmt: skip


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Restores the states of all random generators at the end of the context.

    The generators are Python's, numpy's, and those of torch on the CPU and on every accelerator in use.

    Example:
        >>> before = torch.get_rng_state()
        >>> with random_states_kept():
        ...     _ = torch.rand(3), np.random.rand(3), random.random()
        >>> torch.equal(torch.get_rng_state(), before)
        True
    """
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    # if CUDA is not initialized, it has drawn no random numbers yet, and reading its state would initialize it
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
        if mps is not None:
            torch.mps.set_rng_state(mps)


@contextmanager
def network_kept(network: nn.Module) -> Iterator[None]:
    """Restores gradients, `requires_grad` flags, modes, hooks and buffers of a network at the end of the context.

    At the start of the context, the gradients of parameters are set to None. The values of parameters are not restored,
    so code in the context must not change them; `weight_checksums` detects such changes.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> with network_kept(layer):
        ...     layer.eval()(torch.ones(1, 1)).sum().backward()
        >>> layer.training, layer.weight.grad is None
        (True, True)
    """
    parameters = [(parameter, parameter.grad, parameter.requires_grad) for parameter in network.parameters()]
    modes = [(part, part.training) for part in network.modules()]
    hooks = [(part, {name: dict(getattr(part, name)) for name in HOOKS}) for part in network.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in network.buffers()]
    for parameter, _, _ in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient, requires_grad in parameters:
            parameter.grad = gradient
            parameter.requires_grad_(requires_grad)
        for part, training in modes:
            part.training = training
        for part, registered in hooks:
            for name, before in registered.items():
                current = getattr(part, name)
                if dict(current) != before:
                    current.clear()
                    current.update(before)
        with torch.no_grad():
            for buffer, value in buffers:
                if not torch.equal(buffer, value):
                    buffer.copy_(value)


@torch.no_grad()
def weight_checksums(network: nn.Module) -> dict[str, int]:
    """Returns a checksum of each parameter and buffer. The checksum changes if any single value changes.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> before = weight_checksums(layer)
        >>> layer.bias.data += 0.25
        >>> [name for name, checksum in weight_checksums(layer).items() if checksum != before[name]]
        ['bias']
    """
    tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    return {name: _checksum(tensor) for name, tensor in tensors.items()}


def _checksum(tensor: torch.Tensor) -> int:
    """Returns a checksum of a tensor. Its bytes are added, for speed eight at a time as one integer.

    The last bytes, fewer than eight, are added one by one.
    """
    values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    octets = values.detach().contiguous().flatten().view(torch.uint8)
    size = len(octets) // 8 * 8
    words = octets[:size] if octets.storage_offset() % 8 == 0 else octets[:size].clone()
    return int(words.view(torch.int64).sum()) + int(octets[size:].sum())


@contextmanager
def attributes_kept(*objects: Any) -> Iterator[None]:
    """Restores the attributes of objects at the end of the context.

    Changes inside a list or dictionary are not undone.

    Example:
        >>> class Counter:
        ...     count = 0
        >>> counter = Counter()
        >>> with attributes_kept(counter):
        ...     counter.count += 1
        >>> counter.count
        0
    """
    before = [(instance, dict(vars(instance))) for instance in objects]
    try:
        yield
    finally:
        for instance, attributes in before:
            vars(instance).clear()
            vars(instance).update(attributes)


@contextmanager
def memory_returned(device: torch.device) -> Iterator[None]:
    """Returns freed memory to the system at the end of the context, so that the next peak of memory can be measured.

    On a GPU, the peak of allocated memory is also reset.

    Example:
        >>> with memory_returned(torch.device("cpu")):
        ...     _ = torch.ones(1000)
    """
    try:
        yield
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        try:
            ctypes.CDLL(None).malloc_trim(0)  # otherwise, later code would reuse the freed memory without a new peak
        except (AttributeError, OSError, TypeError):  # the C library has no `malloc_trim`
            pass
