"""Checks the device that a user chose."""

from __future__ import annotations

import torch

from lightning_xai.commands.parser.choices import shortened


def usable_device(name: str) -> torch.device:
    """Returns the torch device with a given name, after checking that it can hold tensors.

    Args:
        name: name of the device, such as "cpu", "cuda" or "cuda:1".

    Raises:
        ValueError: torch knows no such device, or this machine has none.

    Example:
        >>> usable_device("cpu")
        device(type='cpu')
        >>> usable_device("gpu")
        Traceback (most recent call last):
        ValueError: device is 'gpu', which torch does not know: give cpu, cuda, cuda:NUMBER or mps
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(
            f"device is {name!r}, which torch does not know: give cpu, cuda, cuda:NUMBER or mps"
        ) from error
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # AssertionError: torch was built without CUDA
        reason = shortened(str(error), 80)
        raise ValueError(f"device is {name!r}, which cannot be used here ({reason}): choose cpu") from error
    return device
