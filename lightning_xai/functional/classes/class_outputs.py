"""Computes the outputs of a classifier for chosen classes, such as the explained classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lightning_xai.functional.attention import target_rows
from lightning_xai.functional.gradients.target_gradients import EmbeddingModel
from lightning_xai.types import ClassifierOutput, TextInputs

# a network with at most this many classes always computes all of them. This costs little, and the logit of a class is
# then exactly the same whichever classes are explained
FEW_CLASSES = 64


def computes_by_class(model: EmbeddingModel) -> bool:
    """Returns whether `model` can save time and memory by computing only the logits of chosen classes.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> computes_by_class(random_bert())
        False
    """
    network: Any = model
    return getattr(model, "reads_by_class", False) and network.num_classes > FEW_CLASSES


def class_output(
    model: EmbeddingModel, inputs: TextInputs, classes: Tensor, inputs_embeds: Tensor | None = None, **options: bool
) -> ClassifierOutput:
    """Returns the output for K classes of each text: logits [B, K], and readout [B, 1 or K, T].

    If `computes_by_class` is True, the network computes only these K classes. Otherwise, the network computes all
    classes, and the K classes are selected from its output.

    Args:
        model: the classifier.
        inputs: B texts.
        classes: [B, K] long, the K classes of each text.
        inputs_embeds: [B, T, D], embeddings that the network uses in place of those of `inputs`.
        **options: `output_attentions` and `output_hidden_states`, see `Classifier.forward`.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(num_classes=3), TextInputs.of_ids([[1, 5, 6, 2]])
        >>> logits = class_output(model, inputs, torch.tensor([[2, 0]])).logits
        >>> torch.equal(logits, model(inputs).logits[:, [2, 0]])
        True
    """
    network: Any = model
    if computes_by_class(model):
        return network(inputs, inputs_embeds, classes=classes, **options)
    return cut_to_classes(network(inputs, inputs_embeds, **options), classes)


def cut_to_classes(output: ClassifierOutput, classes: Tensor) -> ClassifierOutput:
    """Selects the logits [B, K] and readout [B, 1 or K, T] of `classes` [B, K] from the output for all classes.

    Example:
        >>> output = ClassifierOutput(torch.tensor([[0.5, 1.5]]), torch.tensor([[[1.0], [0.0]]]))
        >>> cut_to_classes(output, torch.tensor([[1]]))
        ClassifierOutput(logits=tensor([[1.5000]]), readout=tensor([[[0.]]]), attentions=None, hidden_states=None)
    """
    # the readout has one row for all classes, one row for each class, or no row if it was not computed
    shared = output.readout.shape[1] <= 1
    readout = output.readout if shared else target_rows(output.readout, classes)
    return replace(output, logits=output.logits.gather(1, classes), readout=readout)


def logits_only(
    model: EmbeddingModel, inputs: TextInputs, inputs_embeds: Tensor | None = None, *, classes: Tensor | None = None
) -> Tensor:
    """Returns the logits [B, C] of all classes, or the logits [B, K] of `classes` [B, K].

    A network whose attribute `reads_by_class` is True does not compute its readout (the head's weights on token states)
    here. Its classification head can therefore use fused attention, which has no second derivatives. After
    `set_attention("eager")`, the head uses plain attention instead.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 2]])
        >>> torch.equal(logits_only(random_bert(), inputs), random_bert()(inputs).logits)
        True
    """
    network: Any = model
    if computes_by_class(model):
        return network(inputs, inputs_embeds, classes=classes, output_readout=False).logits
    options = {"output_readout": False} if getattr(model, "reads_by_class", False) else {}
    logits = network(inputs, inputs_embeds, **options).logits
    return logits if classes is None else logits.gather(1, classes)


def class_columns(classes: Tensor) -> Tensor:
    """Returns [B, K] long: for each class in `classes` [B, K], its column in the output of `class_output`.

    Example:
        >>> class_columns(torch.tensor([[7, 3]])).tolist()
        [[0, 1]]
    """
    return torch.arange(classes.shape[1], device=classes.device).expand(classes.shape)


def segment_graph(
    model: EmbeddingModel, inputs: TextInputs, embeds: Tensor, classes: Tensor | None, *, output_readout: bool
) -> Any:
    """Returns a forward pass that saves memory: it stores the autograd graph of only a few segments at a time.

    The result is None if the model has no such pass. The class PLMCA builds such a pass in its method `segment_graph`,
    but only within the context `gradients_by_segment`.

    Args:
        model: the classifier.
        inputs: B texts.
        embeds: [B, T, D] embeddings. They are part of an autograd graph, or a leaf tensor that requires a gradient.
        classes: [B, K] long, the classes whose logits are needed; None for all classes.
        output_readout: whether the readout (the head's weights on token states) is needed.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]])
        >>> segment_graph(model, inputs, model.embed(inputs), None, output_readout=False) is None
        True
    """
    graph = getattr(model, "segment_graph", None)
    if graph is None:
        return None
    return graph(inputs, embeds, classes if computes_by_class(model) else None, output_readout=output_readout)
