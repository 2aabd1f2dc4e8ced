"""AttInGrad: attention weights times the L2 norm of InputXGradient."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.attributions.base import OnePassAttribution
from lightning_xai.functional.attention import token_attention
from lightning_xai.functional.scores.aggregation import pool
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import ForwardPass, Needs
from lightning_xai.types import Passes


def att_in_grad(attention: Tensor, embeds: Tensor, gradient: Tensor) -> Tensor:
    """Returns unnormalized scores [..., T]: `attention` times the L2 norm of each token's row of `embeds * gradient`.

    `attention` has the shape [..., T]; `embeds` and `gradient` have the shape [..., T, D].

    Example:
        >>> att_in_grad(torch.tensor([0.5]), torch.tensor([[3.0, 2.0]]), torch.tensor([[1.0, 2.0]]))  # |(3, 4)| = 5
        tensor([2.5000])
    """
    return attention * pool(embeds * gradient, "l2")


class AttInGrad(OnePassAttribution):
    """Scores tokens by attention times the L2 norm of InputXGradient, both from the same forward pass.

    The attention is the score that `Attention` gives. If the classification head attends to tokens, this score is the
    head's weight on the token for the class. Otherwise, the head reads the state of one token or the mean of all
    states. The score is then the last encoder layer's attention from the tokens that the head reads, averaged over
    these tokens and over attention heads.

    Passes: one forward pass, and one backward pass for each class.

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
    Records", arXiv 2406.08958, Section 3.
    Differs: here, scores are not normalized. The released code divides scores by their sum over all tokens and classes
    of a document; its metrics then divide each class's scores by their sum, as `Transformed` with "normalize" does.

    Example:
        >>> from lightning_xai.attributions.attention import Attention
        >>> from lightning_xai.attributions.input_x_gradient import InputXGradient
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2]), torch.tensor([[0, 1]])
        >>> product, attention, gradient = (
        ...     method.attribute(random_bert(), inputs, targets).scores
        ...     for method in (AttInGrad(), Attention(), InputXGradient())
        ... )
        >>> torch.allclose(product, attention * gradient)
        True
    """

    needs_attentions = True
    by_segment = True
    has_sign = False

    def needs(self, model: Classifier) -> Needs:
        return Needs(embeds=True, attentions=not model.readout_is_attention, double_backward=True)

    def from_pass(self, forward_pass: ForwardPass, targets: Tensor, *, create_graph: bool) -> Tensor:
        embeds, output = forward_pass.embeds, forward_pass.output
        assert embeds is not None, "the forward pass must provide `embeds`"
        attention = token_attention(output, targets, readout_is_attention=forward_pass.network.readout_is_attention)
        factor = embeds
        if not create_graph:
            attention, factor = attention.detach(), embeds.detach()
        gradients = forward_pass.target_gradients(targets, create_graph=create_graph)
        columns = [att_in_grad(attention[:, k], factor, gradient) for k, gradient in enumerate(gradients)]
        return torch.stack(columns, dim=1)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=num_targets)
