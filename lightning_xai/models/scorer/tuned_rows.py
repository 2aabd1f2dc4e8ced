"""Weights of a module that are tuned separately for each of B examples, stored in tensors with B rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn


class TunedRows(Protocol):
    """Copies of some of a module's parameters. Each of B examples has its own copies, tuned for this example.

    Example:
        >>> rows: TunedRows = StackedRows(nn.Linear(1, 1), ["bias"], 3)
        >>> len(rows.leaves)
        1
    """

    leaves: list[Tensor]  # the tensors that an optimizer updates, each with B rows

    def weights(self) -> list[dict[str, Tensor]]:
        """Returns B dictionaries, one per example: parameter name -> the example's value of it, from `self.leaves`."""
        ...


class StackedRows:
    """B copies of some of a module's parameters. The copies of a parameter are the B rows of one tensor.

    An elementwise optimizer of these tensors, such as AdamW, works like B separate optimizers.

    Args:
        module: the module, whose own parameters are not changed.
        names: names of the parameters to copy.
        rows: number B of examples.

    Example:
        >>> rows = StackedRows(nn.Linear(2, 1), ["weight"], 3)
        >>> rows.leaves[0].shape, [weights["weight"].shape for weights in rows.weights()][0]
        (torch.Size([3, 1, 2]), torch.Size([1, 2]))
    """

    def __init__(self, module: nn.Module, names: Sequence[str], rows: int) -> None:
        parameters = dict(module.named_parameters())
        self.names = list(names)
        self.leaves = [
            parameters[name].detach().expand(rows, *parameters[name].shape).clone().requires_grad_()
            for name in self.names
        ]

    def weights(self) -> list[dict[str, Tensor]]:
        # the backward pass of `unbind` stacks the gradients of all rows once, while the backward pass of indexing would
        # fill a tensor of B rows for each row
        columns = [leaf.unbind() for leaf in self.leaves]
        return [dict(zip(self.names, values, strict=True)) for values in zip(*columns, strict=True)]


class LowRankRows:
    """Weight matrices W of a module. Each of B examples has its own low-rank change of them: W + up @ down.

    Both `up` and `down` are tuned. `up` starts at 0, so W + up @ down starts at W. `down` starts at random values that
    are drawn with seed 0.

    Args:
        module: the module, whose own parameters are not changed.
        names: names of parameters; those that are not matrices are left out.
        rows: number B of examples.
        rank: rank of the changes, the number of rows of `down`.

    Raises:
        ValueError: the rank is below 1.

    Example:
        >>> layer = nn.Linear(4, 2)
        >>> rows = LowRankRows(layer, ["weight", "bias"], 3, rank=1)
        >>> [leaf.shape for leaf in rows.leaves], torch.equal(rows.weights()[0]["weight"], layer.weight)
        ([torch.Size([3, 2, 1]), torch.Size([3, 1, 4])], True)
    """

    def __init__(self, module: nn.Module, names: Sequence[str], rows: int, *, rank: int) -> None:
        if rank < 1:
            raise ValueError(f"the rank is {rank}: give a rank of at least 1")
        parameters = dict(module.named_parameters())
        self.matrices = {name: parameters[name].detach() for name in names if parameters[name].dim() == 2}
        self.leaves = []
        for matrix in self.matrices.values():
            height, width = matrix.shape
            generator = torch.Generator().manual_seed(0)  # on the CPU, so that values are the same on all devices
            down = (torch.randn(rank, width, generator=generator) / width**0.5).to(matrix)
            self.leaves.append(matrix.new_zeros(rows, height, rank).requires_grad_())
            self.leaves.append(down.expand(rows, rank, width).clone().requires_grad_())

    def weights(self) -> list[dict[str, Tensor]]:
        pairs = zip(self.matrices.values(), self.leaves[::2], self.leaves[1::2], strict=True)
        columns = [[matrix + a @ b for a, b in zip(up, down, strict=True)] for matrix, up, down in pairs]
        return [dict(zip(self.matrices, values, strict=True)) for values in zip(*columns, strict=True)]
