"""Gradients of class logits. All classes share one forward pass, but each class needs a backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from lightning_xai.types import ClassifierOutput, TextInputs


class EmbeddingModel(Protocol):
    """The interface of a classifier whose gradients with respect to embeddings can be computed.

    Example:
        >>> class SumOfEmbeddings:
        ...     def embed(self, inputs):
        ...         return inputs.input_ids.float().unsqueeze(-1)
        ...     def __call__(self, inputs, inputs_embeds=None):
        ...         embeds = self.embed(inputs) if inputs_embeds is None else inputs_embeds
        ...         return ClassifierOutput(logits=embeds.sum(dim=1), readout=torch.ones_like(embeds).mT)
        >>> inputs = TextInputs.of_ids([[5, 6]])
        >>> embeds = SumOfEmbeddings().embed(inputs).requires_grad_()
        >>> [*target_gradients(SumOfEmbeddings()(inputs, embeds).logits, torch.tensor([[0]]), embeds)][0].flatten()
        tensor([1., 1.])
    """

    def embed(self, inputs: TextInputs) -> Tensor:
        """Returns the embeddings [B, T, D]."""
        ...

    def __call__(self, inputs: TextInputs, inputs_embeds: Tensor | None = None) -> ClassifierOutput:
        """Returns the output for the embeddings `inputs_embeds` [B, T, D]; None means the embeddings of `inputs`."""
        ...


def target_gradients(
    logits: Tensor,
    targets: Tensor,
    wrt: Tensor | tuple[Tensor, ...],
    *,
    row_weights: Tensor | None = None,
    create_graph: bool = False,
    keep_graph: bool = False,
) -> Iterator[Any]:
    """Yields K gradients. The k-th gradient holds, for each example b, the gradient of `logits[b, targets[b, k]]`.

    Each gradient takes one backward pass. To save memory, reduce each gradient to scores before you take the next
    gradient. The autograd graph of `logits` is freed after the last gradient, unless `create_graph` or `keep_graph` is
    True.

    Args:
        logits: [B, C].
        targets: [B, K] long, the classes whose logits are differentiated.
        wrt: the tensor with respect to which logits are differentiated. For a tuple of tensors, each gradient is a
            tuple.
        row_weights: [B] factors by which the examples' logits are multiplied, 1 by default.
        create_graph: whether the gradients can be differentiated again.
        keep_graph: whether to keep the autograd graph of `logits` after the last gradient.

    Example:
        >>> x = torch.tensor([[2.0], [3.0]], requires_grad=True)
        >>> logits = torch.cat([x, x**2], dim=1)  # derivatives 1 and 2 x
        >>> [gradient.flatten().tolist() for gradient in target_gradients(logits, torch.tensor([[0, 1], [1, 0]]), x)]
        [[1.0, 6.0], [4.0, 1.0]]
    """
    chosen = logits.gather(1, targets)
    if row_weights is not None:
        chosen = chosen * row_weights.unsqueeze(1)
    num_targets = targets.shape[1]
    for column in range(num_targets):
        gradients = torch.autograd.grad(
            chosen[:, column].sum(),
            wrt,
            retain_graph=create_graph or keep_graph or column < num_targets - 1,
            create_graph=create_graph,
        )
        yield gradients if isinstance(wrt, tuple) else gradients[0]
