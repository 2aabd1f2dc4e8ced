"""Gradients of the explained classes' logits with respect to embeddings."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from lightning_xai.functional.classes.class_outputs import (
    class_columns,
    class_output,
    computes_by_class,
    logits_only,
    segment_graph,
)
from lightning_xai.functional.gradients.target_gradients import EmbeddingModel, target_gradients
from lightning_xai.types import TextInputs


def class_gradients(
    model: EmbeddingModel,
    inputs: TextInputs,
    classes: Tensor,
    embeds: Tensor,
    *,
    wrt: Tensor | None = None,
    row_weights: Tensor | None = None,
    create_graph: bool = False,
) -> Iterator[Tensor]:
    """Yields K gradients. The k-th gradient holds, for each text b, the gradient of the logit of class `classes[b, k]`.

    All classes share one forward pass. If `computes_by_class(model)` is True, this pass computes only these K logits.

    Args:
        model: the classifier.
        inputs: B texts.
        classes: [B, K] long, the K classes of each text.
        embeds: [B, T, D], the embeddings that the network receives.
        wrt: the tensor with respect to which logits are differentiated. `embeds` must be computed from it. None
            differentiates with respect to `embeds`.
        row_weights: [B] factors by which the texts' logits are multiplied, 1 by default.
        create_graph: whether the gradients can be differentiated again.

    Example:
        >>> import torch
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(num_classes=3), TextInputs.of_ids([[1, 5, 6, 2]])
        >>> embeds = model.embed(inputs).detach().requires_grad_()
        >>> [gradient.shape for gradient in class_gradients(model, inputs, torch.tensor([[2, 0]]), embeds)]
        [torch.Size([1, 4, 4]), torch.Size([1, 4, 4])]
    """
    graph = None if create_graph else segment_graph(model, inputs, embeds, classes, output_readout=False)
    if graph is not None:
        columns = class_columns(classes) if computes_by_class(model) else classes
        yield from graph.target_gradients(columns, embeds if wrt is None else wrt, row_weights=row_weights)
        return
    if create_graph:  # `logits_only` may use fused attention, which cannot be differentiated twice
        logits = class_output(model, inputs, classes, embeds).logits
    else:
        logits = logits_only(model, inputs, embeds, classes=classes)
    yield from target_gradients(
        logits,
        class_columns(classes),
        embeds if wrt is None else wrt,
        row_weights=row_weights,
        create_graph=create_graph,
    )
