"""Stores and restores the state of torch's random generators, so that two forward passes use the same dropout masks."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class GeneratorState(NamedTuple):
    """The states of torch's random generators on the CPU and on an accelerator.

    Example:
        >>> state = GeneratorState.now(torch.device("cpu"))
        >>> first = torch.rand(3)
        >>> state.restore()
        >>> torch.equal(torch.rand(3), first)
        True
    """

    device: torch.device
    cpu: Tensor
    accelerator: Tensor | None

    @classmethod
    def now(cls, device: torch.device) -> GeneratorState:
        """Returns the current state of the generators that a forward pass on `device` uses."""
        accelerator = None
        if device.type == "cuda":
            accelerator = torch.cuda.get_rng_state(device)
        elif device.type == "mps":
            accelerator = torch.mps.get_rng_state()
        return cls(device, torch.get_rng_state(), accelerator)

    def restore(self) -> None:
        """Sets the generators back to this state."""
        torch.set_rng_state(self.cpu)
        if self.accelerator is None:
            return
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(self.accelerator, self.device)
        else:
            torch.mps.set_rng_state(self.accelerator)
