"""Computes gradient attributions of long texts for a few segments at a time, which saves memory."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.models.base import Classifier
from lightning_xai.models.segments.segment_graph import gradients_by_segment
from lightning_xai.types import Passes, TextInputs


class BySegment(AttributionMethod):
    """Computes the scores of `method` in less memory. The network must be a PLM-CA, which encodes texts by segment.

    First, the states of a text are computed without a graph. Then the head's gradients are computed for all K classes.
    Finally, groups of segments are encoded again, and the K gradients are propagated through the graph of each group.
    Memory therefore holds K gradients [T, D] and the encoder's graph for one group, instead of the graph for the whole
    text. The scores equal those of `method` apart from rounding.

    Passes: those of `method`, except that each forward pass with a gradient is made twice.

    Args:
        method: a method that uses gradients with respect to embeddings: Gradient, InputXGradient, AttInGrad,
            AttentionGradient, IntegratedGradients, GradientSHAP or SequentialIntegratedGradients.
        segments_at_once: largest number of segments whose graph is in memory at once.

    Raises:
        ValueError: `method.by_segment` is False, or `segments_at_once` is below 1. When scores are computed: the
            network does not encode texts by segment.

    Example:
        >>> import torch
        >>> from lightning_xai.attributions.gradient import Gradient
        >>> from lightning_xai.models.plm_ca import PLMCA
        >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> bert = {"model_type": "bert", "intermediate_size": 4} | sizes
        >>> model = PLMCA(config=bert, num_classes=3, segment_length=2)
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 7, 2]]), torch.tensor([[2, 0]])
        >>> whole = Gradient().attribute(model, inputs, targets).scores
        >>> torch.allclose(BySegment(Gradient(), segments_at_once=2).attribute(model, inputs, targets).scores, whole)
        True
    """

    def __init__(self, method: AttributionMethod, segments_at_once: int = 8) -> None:
        if not method.by_segment:
            raise ValueError(
                f"{type(method).__name__} takes no gradient that BySegment can compute by segment: choose Gradient, "
                "AttInGrad, IntegratedGradients or another gradient method, and put transforms around BySegment, not "
                "inside it"
            )
        if segments_at_once < 1:
            raise ValueError(f"segments_at_once is {segments_at_once}: give at least 1 segment")
        self.method = method
        self.segments_at_once = segments_at_once
        self.needs_attentions = method.needs_attentions
        self.passes_at_most = method.passes_at_most

    @property
    def has_sign(self) -> bool:
        return self.method.has_sign

    def for_preflight(self) -> BySegment:
        """Returns the method for a preflight, which only looks for errors: BySegment with `method.for_preflight()`."""
        method = self.method.for_preflight()
        return self if method is self.method else BySegment(method, self.segments_at_once)

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        network: Any = model
        if not hasattr(network, "segments_at_once"):
            raise ValueError(
                f"{type(model).__name__} encodes a text as a whole: use {type(self.method).__name__} without BySegment"
            )
        with gradients_by_segment(network, self.segments_at_once):
            return self.method.scores(model, inputs, targets)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        made = self.method.passes(num_tokens, num_targets)
        return Passes(made.forward + made.backward / max(num_targets, 1), made.backward)
