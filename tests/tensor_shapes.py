"""The shapes of all tensors that operations return."""

from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class TensorShapes(TorchDispatchMode):
    """Records the shape and the type of every tensor that an operation returns, also in backward passes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[tuple[tuple[int, ...], torch.dtype], str] = {}  # shape and type -> first operation

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        for tensor in tensors_in(result):
            self.seen.setdefault((tuple(tensor.shape), tensor.dtype), str(function))
        return result

    def with_sizes(self, *sizes: int) -> dict[tuple[tuple[int, ...], torch.dtype], str]:
        """Returns the tensors in which the sizes, each at least as large as asked for, are sizes of different axes."""
        wanted = sorted(sizes, reverse=True)
        return {
            key: function
            for key, function in self.seen.items()
            if len(key[0]) >= len(wanted)
            and all(have >= want for have, want in zip(sorted(key[0], reverse=True), wanted, strict=False))
        }


def tensors_in(result: object) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from tensors_in(part)
