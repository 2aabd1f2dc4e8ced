"""Copies of networks that take less time than those of `copy.deepcopy`."""

import io
import pickle
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch


class _Writer(pickle.Pickler):
    """Writes a network without its tensors and functions, which it puts into a list."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.parts: list[Any] = []
        self._places: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, (torch.Tensor, FunctionType)):
            return None
        if id(obj) not in self._places:
            self._places[id(obj)] = len(self.parts)
            self.parts.append(obj)
        return self._places[id(obj)]


class _Reader(pickle.Unpickler):
    """Reads a network and copies its tensors. A tensor that two modules share is shared in the copy, too."""

    def __init__(self, file: io.BytesIO, parts: list[Any]) -> None:
        super().__init__(file)
        self._parts = parts
        self._copies: dict[int, Any] = {}

    def persistent_load(self, pid: int) -> Any:
        if pid not in self._copies:
            part = self._parts[pid]
            copy = part.detach().clone() if isinstance(part, torch.Tensor) else part
            is_parameter = isinstance(part, torch.nn.Parameter)
            self._copies[pid] = torch.nn.Parameter(copy, part.requires_grad) if is_parameter else copy
        return self._copies[pid]


def copies_of(network: Any) -> Callable[[], Any]:
    """Returns a function that returns a new copy of `network` at each call."""
    file = io.BytesIO()
    writer = _Writer(file)
    writer.dump(network)
    return lambda: _Reader(io.BytesIO(file.getvalue()), writer.parts).load()
