"""Adapts the embeddings and the layers of a classifier to captum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lightning_xai.models.base import Classifier
from lightning_xai.types import TextInputs


class EmbeddingInput(nn.Module):
    """Module that maps embeddings to a classifier's logits.

    captum repeats each row of embeddings, once for each sample or step. It repeats an additional argument in the same
    way, but only if the argument is a tensor. The second argument of `forward` is therefore a tensor. For each row of
    embeddings, it holds the index of the row's text in `inputs`, with which `forward` finds the text's masks.

    Args:
        model: the classifier.
        inputs: B texts.
        channels_first: whether `layer` gets embeddings [R, D, T] instead of [R, T, D].

    Attributes:
        layer: returns the embeddings unchanged, so that layer algorithms can explain them.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2], [1, 7, 8, 2]])
        >>> logits = EmbeddingInput(model, inputs)(model.embed(inputs)[[1, 1]], torch.tensor([1, 1]))
        >>> torch.allclose(logits[0], model(inputs).logits[1], atol=1e-6)
        True
    """

    def __init__(self, model: Classifier, inputs: TextInputs, *, channels_first: bool = False) -> None:
        super().__init__()
        self.layer = nn.Identity()
        self.channels_first = channels_first
        self._classify = model.__call__  # a bound method, because `model` itself would become a submodule
        self._inputs = inputs

    def forward(self, embeds: Tensor, rows: Tensor) -> Tensor:
        """Returns logits [R, C] for embeddings [R, T, D]. Row r belongs to the text at index `rows[r]` of `inputs`."""
        if self.channels_first:
            embeds = self.layer(embeds.transpose(1, 2)).transpose(1, 2)
        else:
            embeds = self.layer(embeds)
        return self._classify(self._inputs[rows], embeds).logits


@torch.no_grad()
def layer_states(function: EmbeddingInput, layer: nn.Module, embeds: Tensor, rows: Tensor) -> Tensor:
    """Returns the output [B, T, D] of a layer for embeddings [B, T, D]. Row b belongs to the text `rows[b]`.

    Raises:
        ValueError: the network never calls the layer.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]])
        >>> function = EmbeddingInput(model, inputs)
        >>> layer_states(function, function.layer, model.embed(inputs), torch.tensor([0])).shape
        torch.Size([1, 4, 4])
    """
    kept = []
    handle = layer.register_forward_hook(lambda module, arguments, output: kept.append(output))
    try:
        function(embeds, rows)
    finally:
        handle.remove()
    if not kept:
        raise ValueError("the network never calls this layer: name another layer, or set layer to null")
    states: Tensor = kept[-1][0] if isinstance(kept[-1], tuple) else kept[-1]  # as captum, the last call
    return states


@contextmanager
def checked_layer(model: Classifier, name: str, num_tokens: int) -> Iterator[nn.Module]:
    """Context manager that yields a layer of a network, and checks the layer's outputs within the context.

    A forward pass raises ValueError unless the layer returns a tensor [B, T, D] with T = `num_tokens`, or a tuple whose
    first entry is such a tensor.

    Raises:
        ValueError: the network has no layer with this name.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> with checked_layer(random_bert(), "transformer.bert.encoder.layer.0", num_tokens=4) as layer:
        ...     type(layer).__name__
        'BertLayer'
    """

    def check(module: nn.Module, arguments: Any, output: Any) -> None:
        shape = list((output[0] if isinstance(output, tuple) else output).shape)
        if len(shape) != 3 or shape[1] != num_tokens:
            raise ValueError(
                f"layer {name} returns a tensor of shape {shape} for texts of {num_tokens} tokens: name a layer that "
                "returns one state per token, or set layer to null to explain embeddings"
            )

    try:
        layer = model.get_submodule(name)
    except AttributeError as error:
        parts = ", ".join(part for part, _ in model.named_modules() if part.count(".") == name.count("."))
        raise ValueError(f"layer is {name!r}, but {error}: choose among {parts}") from error
    handle = layer.register_forward_hook(check)
    try:
        yield layer
    finally:
        handle.remove()
