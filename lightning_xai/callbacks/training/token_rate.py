"""Measures the speed of training in tokens per second. Padding and the time of validations do not count."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def real_tokens(batch: Any) -> Tensor:
    """Returns the number of tokens in a batch, excluding padding, as a long tensor []; 0 if `batch` is not a Batch.

    Example:
        >>> from lightning_xai.types import Batch, TextInputs
        >>> real_tokens(Batch(TextInputs.of_ids([[5, 6, 7], [8]]), torch.tensor([0, 1])))
        tensor(4)
    """
    mask = getattr(getattr(batch, "inputs", None), "attention_mask", None)
    return torch.zeros((), dtype=torch.long) if mask is None else mask.sum()


class TokenRate:
    """Counts the tokens that are processed, and the seconds that pass outside of pauses.

    Args:
        clock: function that returns the time in seconds.

    Example:
        >>> now = [0.0]
        >>> rate = TokenRate(clock=lambda: now[0])
        >>> rate.add(torch.tensor(300))
        >>> now[0] = 2.0
        >>> tokens, seconds = rate.take()
        >>> tokens.item(), seconds
        (300, 2.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens = torch.zeros((), dtype=torch.long)  # a tensor, because conversion to int would wait for the GPU
        self._seconds = 0.0  # seconds counted up to the last pause
        self._began: float | None = clock()  # time of the start or the last `resume`; None while paused

    def add(self, num_tokens: Tensor) -> None:
        self._tokens = num_tokens + self._tokens.to(num_tokens.device)

    def pause(self) -> None:
        if self._began is not None:
            self._seconds += self._clock() - self._began
            self._began = None

    def resume(self) -> None:
        if self._began is None:
            self._began = self._clock()

    def take(self) -> tuple[Tensor, float]:
        """Returns the number of tokens and the seconds since the last call, and resets both to 0."""
        is_paused = self._began is None
        self.pause()
        counted = self._tokens, self._seconds
        self._tokens, self._seconds = torch.zeros_like(self._tokens), 0.0
        if not is_paused:
            self.resume()
        return counted
