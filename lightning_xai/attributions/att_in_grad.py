"""Attention times InputXGradient."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.aggregation import pool
from lightning_xai.functional.attention import token_attention
from lightning_xai.functional.gradients import differentiable_embeds, target_gradients
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


def att_in_grad(attention: Tensor, embeds: Tensor, gradient: Tensor) -> Tensor:
    """Returns attention [..., T] times the L2 norm of embeds * gradient [..., T, D], not normalized."""
    return attention * pool(embeds * gradient, "l2")


class AttInGrad(DifferentiableAttribution):
    """Scores tokens by attention times the L2-pooled InputXGradient, from one forward pass.

    Attention is the class's own row where the head attends to tokens, else the last layer's row from which the head
    reads, averaged over heads.

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
    Records", arXiv 2406.08958, section 3.
    Differs: the released code divides by the sum over all tokens and classes of a document; `Transformed` with
    "normalize" divides each class by its own, which is what its metrics do next.
    """

    needs_attentions = True

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        embeds = differentiable_embeds(model, inputs, create_graph=create_graph)
        output = model(inputs, embeds, output_attentions=not model.readout_is_attention)
        attention = token_attention(output, targets, readout_is_attention=model.readout_is_attention)
        factor = embeds
        if not create_graph:
            attention, factor = attention.detach(), embeds.detach()
        gradients = target_gradients(output.logits, targets, embeds, create_graph=create_graph)
        columns = [att_in_grad(attention[:, k], factor, gradient) for k, gradient in enumerate(gradients)]
        return torch.stack(columns, dim=1)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=num_targets)
