"""Attention weighted by how much the class depends on it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.attention import encoder_attentions, read_tokens, target_rows
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.gradients import differentiable_embeds, target_gradients
from lightning_xai.functional.signs import Sign, with_sign
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs

Layers = Literal["last", "all"]


class AttentionGradient(DifferentiableAttribution):
    """Scores tokens by attention times the gradient of the class's logit with respect to it (a-grad-a).

    Where the head attends to tokens, that is its attention; elsewhere it is the encoder's, averaged over heads (and
    over layers) after the product, in the row from which the head reads.

    Args:
        sign: what becomes of the gradient before it is multiplied, see `with_sign`.
        layers: the encoder layers that count where the head does not attend to tokens.

    Reference: Serrano and Smith (2019), "Is Attention Interpretable?", arXiv 1906.03731, Section 3.
    Differs: Edin et al. (2024) divide every class's scores by their sum, which `Transformed` does with "normalize".
    """

    needs_attentions = True

    def __init__(self, sign: Sign = "absolute", layers: Layers = "last") -> None:
        require_choices({"sign": Sign, "layers": Layers}, {"sign": sign, "layers": layers})
        self.sign = sign
        self.layers = layers

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        """Returns scores [B, K, T].

        Raises:
            ValueError: `layers` is "all", but the head attends to tokens itself.
        """
        # the embeddings need a gradient so that attention is in a graph even when all weights are frozen
        embeds = differentiable_embeds(model, inputs, create_graph=create_graph)
        output = model(inputs, embeds, output_attentions=not model.readout_is_attention)
        if model.readout_is_attention:
            if self.layers == "all":
                raise ValueError("layers is 'all', but this head's own attention is explained: choose layers='last'")
            return self._head_scores(output.logits, output.readout, targets, create_graph)
        attentions = encoder_attentions(output)[-1:] if self.layers == "last" else encoder_attentions(output)
        columns = []
        for gradients in target_gradients(output.logits, targets, attentions, create_graph=create_graph):
            products = [a * with_sign(g, self.sign) for a, g in zip(attentions, gradients, strict=True)]
            mixing = torch.stack([product.mean(dim=1) for product in products]).mean(dim=0)
            columns.append(read_tokens(output.readout, mixing).squeeze(1))
        return torch.stack(columns, dim=1)

    def _head_scores(self, logits: Tensor, readout: Tensor, targets: Tensor, create_graph: bool) -> Tensor:
        if readout.shape[1] == 1:  # one attention for all classes
            gradient = torch.cat([*target_gradients(logits, targets, readout, create_graph=create_graph)], dim=1)
        else:
            # a logit depends on its own row only, so one pass serves all classes; a class asked for twice counts once
            chosen = torch.zeros_like(logits).scatter(1, targets, 1.0)
            (gradient,) = torch.autograd.grad((logits * chosen).sum(), readout, create_graph=create_graph)
            gradient = target_rows(gradient, targets)
        return target_rows(readout, targets) * with_sign(gradient, self.sign)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        """Returns an upper bound: passes back end at the attention, and one serves all rows of a cross-attention."""
        return Passes(forward=1, backward=num_targets)
