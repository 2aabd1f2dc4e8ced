"""Helpers for distributed runs: give the number of this process, and gather values from all processes."""

from __future__ import annotations

import os
from typing import TypeVar

import torch

Value = TypeVar("Value")


def rank() -> int:
    """Returns the number of this process; works also before the process group exists.

    Example:
        >>> rank()
        0
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", os.environ.get("SLURM_PROCID", 0))))


def gather(value: Value) -> list[Value]:
    """Returns the values of all processes in the order of their numbers; every process must call this function.

    Example:
        >>> gather({"a": 1})
        [{'a': 1}]
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [value]
    values: list[Value] = [value] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(values, value)
    return values
