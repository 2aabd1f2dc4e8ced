"""A forward pass that several readers share. A reader is a loss term or an attribution method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from lightning_xai.functional.classes.class_outputs import class_output, segment_graph
from lightning_xai.functional.gradients.target_gradients import target_gradients
from lightning_xai.functional.network.generator_state import GeneratorState
from lightning_xai.models.base import Classifier
from lightning_xai.types import ClassifierOutput, TextInputs


class Needs(NamedTuple):
    """Flags that say what a reader of a forward pass (a loss term or a method) needs in addition to the logits.

    Attributes:
        embeds: the token embeddings [B, T, D], with respect to which gradients are taken.
        attentions: the attention weights of all layers, which need eager attention.
        hidden_states: the states after every layer.
        double_backward: gradients that can be differentiated again, which need eager attention.
        own_attentions: the attention weights of a forward pass that the reader runs itself, which need eager attention.
        readout: the weights with which the head reads token states. If no reader needs these weights, PLM-CA can use
            fused attention.

    Example:
        >>> Needs(embeds=True) | Needs(attentions=True)
        Needs(embeds=True, attentions=True, hidden_states=False, double_backward=False, \
own_attentions=False, readout=True)
    """

    embeds: bool = False
    attentions: bool = False
    hidden_states: bool = False
    double_backward: bool = False
    own_attentions: bool = False
    readout: bool = True

    def __or__(self, other: Needs) -> Needs:
        """Returns what two readers (loss terms or methods) need together: a flag is True if either reader sets it."""
        return Needs(*(mine or theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def eager(self) -> bool:
        """Whether the network must use eager attention."""
        return self.attentions or self.double_backward or self.own_attentions


class ForwardPass:
    """A forward pass whose graph is kept, so that its readers (loss terms, methods) need no passes of their own.

    Args:
        network: the classifier, already in the train or eval mode to use.
        inputs: B texts.
        needs: the union of the readers' needs.
        create_graph: whether gradients of this pass are differentiated again.
        shared: whether several readers take gradients of this pass, so that its graph must be kept after each reader.
        classes: [B, K] long, the classes whose logits and readout rows are computed; None for all classes.

    Attributes:
        embeds: [B, T, D] token embeddings that require a gradient; None if no reader needs them.
        output: the network's output, in the graph.
        state_before: state of the random generators after the embeddings were computed, and before the pass.
        state_after: state of the random generators after the pass.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> inputs = TextInputs.of_ids([[1, 5, 2], [1, 6, 2]])
        >>> done = ForwardPass(random_bert(), inputs, Needs(embeds=True), create_graph=False)
        >>> done.gradient(done.output.logits[:, 0]).shape == done.embeds.shape
        True
    """

    def __init__(
        self,
        network: Classifier,
        inputs: TextInputs,
        needs: Needs,
        *,
        create_graph: bool,
        shared: bool = True,
        classes: Tensor | None = None,
    ) -> None:
        self.network = network
        self.inputs = inputs
        self.create_graph = create_graph
        self.shared = shared
        self._cudnn = not needs.double_backward  # cuDNN's recurrent layers cannot be differentiated twice
        self.embeds = self._embeds() if needs.embeds else None
        options = {"output_attentions": needs.attentions, "output_hidden_states": needs.hidden_states}
        if network.reads_by_class and not needs.readout:
            options["output_readout"] = False
        self.state_before = GeneratorState.now(inputs.device)  # after `embed`, which may draw dropout masks
        self._graph = None
        if self.embeds is not None and not create_graph:
            self._graph = segment_graph(network, inputs, self.embeds, classes, output_readout=needs.readout)
        with torch.backends.cudnn.flags(enabled=self._cudnn and torch.backends.cudnn.enabled):
            if self._graph is not None:
                self.output = self._graph.output
            elif classes is None:
                self.output = network(inputs, self.embeds, **options)
            else:
                self.output = class_output(network, inputs, classes, self.embeds, **options)
        self.state_after = GeneratorState.now(inputs.device)

    def gradient(self, values: Tensor) -> Tensor:
        """Returns the gradient [B, T, D] of each example's value with respect to the example's embeddings.

        Args:
            values: [B] values in the graph of this pass. Each must depend only on its own example.
        """
        assert self.embeds is not None, "gradients need a pass with Needs(embeds=True)"
        # examples do not affect each other, so the gradient of the sum holds the gradient of each example
        if self._graph is not None:
            return next(self._graph.gradients([values.sum()], self.embeds, keep_graph=True))
        (gradient,) = torch.autograd.grad(values.sum(), self.embeds, retain_graph=True, create_graph=self.create_graph)
        return gradient

    def target_gradients(self, targets: Tensor, *, create_graph: bool) -> Iterator[Tensor]:
        """Yields K gradients [B, T, D] of this pass's logits with respect to `embeds`.

        The k-th gradient holds, for each example b, the gradient of `logits[b, targets[b, k]]`.

        Args:
            targets: [B, K] long, columns of this pass's logits.
            create_graph: whether the gradients can be differentiated again.
        """
        assert self.embeds is not None, "gradients need a pass with Needs(embeds=True)"
        if self._graph is not None:
            return self._graph.target_gradients(targets, self.embeds, keep_graph=self.shared)
        logits = self.output.logits
        return target_gradients(logits, targets, self.embeds, create_graph=create_graph, keep_graph=self.shared)

    def again(
        self,
        inputs: TextInputs,
        embeds: Tensor | None = None,
        *,
        same_dropout: bool = False,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        output_readout: bool = True,
    ) -> ClassifierOutput:
        """Runs the network again on changed inputs or embeddings of the same texts. Returns the output with its graph.

        Args:
            inputs: B texts.
            embeds: [B, T, D], or None for the network's own embeddings of `inputs`.
            same_dropout: whether to use the dropout masks of the first pass instead of drawing new ones.
            output_attentions, output_hidden_states: as in `Classifier.forward`.
            output_readout: whether the readout (the weights with which the head reads token states) is needed. If not,
                PLM-CA can use fused attention.
        """
        options = {"output_attentions": output_attentions, "output_hidden_states": output_hidden_states}
        if self.network.reads_by_class and not output_readout:
            options["output_readout"] = False
        if same_dropout:
            self.state_before.restore()
        with torch.backends.cudnn.flags(enabled=self._cudnn and torch.backends.cudnn.enabled):
            return self.network(inputs, embeds, **options)

    def _embeds(self) -> Tensor:
        embeds = self.network.embed(self.inputs)
        # the output of a frozen embedding table has no graph, so this output is made a leaf that requires a gradient
        return embeds if embeds.requires_grad else embeds.detach().requires_grad_()
