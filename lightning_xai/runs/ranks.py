"""Functions for distributed runs: the rank of this process, and values gathered from all processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import torch

Value = TypeVar("Value")


def rank() -> int:
    """Returns the rank of this process, even before the process group exists.

    Before the group exists, the result is the rank within the node if LOCAL_RANK is set, but RANK is not.

    Example:
        >>> rank()
        0
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", os.environ.get("SLURM_PROCID", 0))))


def is_first() -> bool:
    """Returns whether this is the command's first process, even before the process group exists.

    Example:
        >>> is_first()
        True
    """
    # if RANK is not set, `rank` may return the rank within the node, so one process on every node may have the rank 0
    on_first_node = "RANK" in os.environ or int(os.environ.get("NODE_RANK", 0)) == 0
    return rank() == 0 and on_first_node


def first_does(action: Callable[[], object]) -> None:
    """Calls `action` in the first process only. If `action` raises ValueError, all processes raise this error.

    Every process must call `first_does`.

    Example:
        >>> first_does(lambda: print("locked"))
        locked
    """
    refusal = ""
    if rank() == 0:
        try:
            action()
        except ValueError as error:
            refusal = str(error)
    refusal = gather(refusal)[0]
    if refusal:
        raise ValueError(refusal)


def gather(value: Value) -> list[Value]:
    """Returns the values of all processes in the order of their ranks. Every process must call this function.

    Example:
        >>> gather({"a": 1})
        [{'a': 1}]
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [value]
    values: list[Value] = [value] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(values, value)
    return values
