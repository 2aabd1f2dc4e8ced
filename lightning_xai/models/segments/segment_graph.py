"""Computes gradients of a long text's logits while storing the graph of only a few segments at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

from lightning_xai.functional.network.chunking import even_slices
from lightning_xai.models.huggingface import HeadOutput, TransformerCall
from lightning_xai.types import ClassifierOutput, TextInputs


class _SegmentedEncoder(Protocol):
    """The part of PLMCA's interface that encodes segments and computes logits from their states."""

    training: bool

    @property
    def attention_implementation(self) -> str: ...

    def ordered_call(self, inputs: TextInputs, inputs_embeds: Tensor) -> tuple[TransformerCall, Tensor | None]: ...

    def run(self, call: TransformerCall, *, output_attentions: bool, output_hidden_states: bool) -> Any: ...

    def head_output(
        self, output: Any, inputs: TextInputs, columns: Tensor | None, classes: Tensor | None, *, fused: bool
    ) -> HeadOutput: ...


@contextmanager
def gradients_by_segment(network: Any, segments_at_once: int) -> Iterator[None]:
    """Within the context, gradients of a PLMCA are computed with graphs of at most `segments_at_once` segments.

    Example:
        >>> from types import SimpleNamespace
        >>> network = SimpleNamespace(segments_at_once=None)
        >>> with gradients_by_segment(network, 8):
        ...     network.segments_at_once
        8
        >>> network.segments_at_once is None
        True
    """
    before, network.segments_at_once = network.segments_at_once, segments_at_once
    try:
        yield
    finally:
        network.segments_at_once = before


class SegmentGraph:
    """A forward pass whose graph begins at the token states. For gradients, segments are encoded again, with a graph.

    First, the states of all segments (N per text, with S tokens each) are computed without a graph. The gradients of K
    logits with respect to the states are K tensors [B * N, S, D]. Then a few segments at a time are encoded again, and
    each of the K gradients is propagated back through the graph of these segments. The graph of the whole text is never
    stored, at the cost of one more forward pass. Up to rounding, the results equal those of a single graph.

    Args:
        network: a PLMCA in eval mode.
        inputs: B texts.
        embeds: [B, T, D] embeddings: part of a graph, or a leaf that requires a gradient.
        classes: [B, K] long, the classes for which logits and readout are computed; None for all classes.
        output_readout: as in `PLMCA.forward`.
        segments_at_once: largest number of segments whose graph is stored at once.

    Attributes:
        output: logits and readout, in the graph that begins at the states.

    Raises:
        ValueError: the network is in train mode, where encoding segments again would draw other dropout masks.

    Example:
        >>> from lightning_xai.models.plm_ca import PLMCA
        >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> bert = {"model_type": "bert", "intermediate_size": 4} | sizes
        >>> network = PLMCA(config=bert, num_classes=3, segment_length=2).eval()
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 7, 2]])
        >>> embeds = network.embed(inputs).detach().requires_grad_()
        >>> graph = SegmentGraph(network, inputs, embeds, output_readout=False, segments_at_once=1)
        >>> (by_segment,) = graph.gradients([graph.output.logits[:, 2].sum()], embeds)
        >>> (whole,) = torch.autograd.grad(network(inputs, embeds).logits[:, 2].sum(), embeds)
        >>> torch.allclose(by_segment, whole, atol=1e-6)
        True
    """

    def __init__(
        self,
        network: _SegmentedEncoder,
        inputs: TextInputs,
        embeds: Tensor,
        classes: Tensor | None = None,
        *,
        output_readout: bool,
        segments_at_once: int,
    ) -> None:
        if network.training:
            raise ValueError("the network is in train mode, where dropout differs between passes: call eval() first")
        self._network = network
        self._call, columns = network.ordered_call(inputs, embeds)
        self._groups = list(even_slices(len(self._call.keep), segments_at_once))
        with torch.no_grad():
            states = torch.cat([self._encode(rows, self._embeds[rows]) for rows in self._groups])
        self._states = states.requires_grad_()
        fused = not output_readout and network.attention_implementation != "eager"
        states_as_output = BaseModelOutput(last_hidden_state=self._states)
        head_output = network.head_output(states_as_output, inputs, columns, classes, fused=fused)
        readout = head_output.readout if output_readout else head_output.readout[:, :0]
        self.output = ClassifierOutput(head_output.logits, readout)

    @property
    def _embeds(self) -> Tensor:
        """The embeddings [B * N, S, D] of all segments: N for each of B texts, with S tokens each."""
        assert self._call.embeds is not None, "a SegmentGraph encodes embeddings, so it needs them"
        return self._call.embeds

    def gradients(self, values: list[Tensor], wrt: Tensor, *, keep_graph: bool = False) -> Iterator[Tensor]:
        """Yields K gradients with respect to `wrt`, one for each of K scalars.

        Args:
            values: K scalars in the graph of `output`.
            wrt: the embeddings, or a tensor from which the embeddings were computed.
            keep_graph: whether more gradients of `output` will be taken afterwards.
        """
        of_states = []
        for number, value in enumerate(values):
            keep = keep_graph or number < len(values) - 1
            of_states.append(torch.autograd.grad(value, self._states, retain_graph=keep)[0])
        for rows in self._groups:
            embeds = self._embeds[rows].detach().requires_grad_()
            with torch.enable_grad():
                states = self._encode(rows, embeds)
            for number, gradient in enumerate(of_states):
                keep = number < len(of_states) - 1
                # the gradient with respect to the states of these segments is not needed any more, so the gradient
                # with respect to their embeddings overwrites it
                (gradient[rows],) = torch.autograd.grad(states, embeds, gradient[rows], retain_graph=keep)
        for number, gradient in enumerate(of_states):
            keep = keep_graph or number < len(of_states) - 1
            yield torch.autograd.grad(self._embeds, wrt, gradient, retain_graph=keep)[0]

    def target_gradients(
        self, targets: Tensor, wrt: Tensor, *, row_weights: Tensor | None = None, keep_graph: bool = False
    ) -> Iterator[Tensor]:
        """Yields K gradients of the logits of `output` with respect to `wrt`.

        The k-th gradient holds, for each example b, the gradient of `logits[b, targets[b, k]]`.

        Args:
            targets: [B, K] long, columns of the logits of `output`.
            wrt: as in `gradients`.
            row_weights: [B] factors by which the texts' logits are multiplied, 1 by default.
            keep_graph: as in `gradients`.
        """
        chosen = self.output.logits.gather(1, targets)
        if row_weights is not None:
            chosen = chosen * row_weights.unsqueeze(1)
        yield from self.gradients(list(chosen.sum(dim=0).unbind()), wrt, keep_graph=keep_graph)

    def _encode(self, rows: slice, embeds: Tensor) -> Tensor:
        """Returns the last hidden states [n, S, D] of the n segments in `rows`."""
        arguments = {name: value[rows] for name, value in self._call.arguments.items()}
        call = TransformerCall(arguments, embeds, self._call.keep[rows])
        return self._network.run(call, output_attentions=False, output_hidden_states=False).last_hidden_state
