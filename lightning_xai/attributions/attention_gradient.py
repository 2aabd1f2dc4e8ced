"""Attention times the gradient of the class's logit with respect to attention."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.attributions.base import OnePassAttribution
from lightning_xai.functional.attention import encoder_attentions, read_tokens, target_rows
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.gradients.target_gradients import target_gradients
from lightning_xai.functional.scores.signs import Sign, with_sign
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import ForwardPass, Needs
from lightning_xai.types import Passes

Layers = Literal["last", "all"]


class AttentionGradient(OnePassAttribution):
    """Scores tokens by attention weights times the gradient of the class's logit with respect to these weights.

    If the classification head attends to tokens, its attention weights are used. Otherwise, attention weights of the
    encoder are used, from the token that the classification head reads ([CLS] or the last token) to all tokens. The
    products are then averaged over attention heads. If `layers` is "all", they are also averaged over layers. If the
    classification head reads the mean of all states, they are also averaged over the tokens that it reads.

    Passes: one forward pass, and at most one backward pass for each class. If the classification head attends to tokens
    for each class separately, one backward pass serves all classes. Backward passes stop at the attention weights.

    Args:
        sign: how the gradient enters the product: unchanged ("signed"), as its absolute value ("absolute"), or with
            its negative values set to 0 ("nonnegative").
        layers: the encoder layers whose attention weights are used, "last" or "all". If the classification head attends
            to tokens, `layers` must be "last" and has no effect.

    Raises:
        ValueError: when scores are computed, `layers` is "all" but the classification head attends to tokens.

    Reference: Serrano and Smith (2019), "Is Attention Interpretable?", arXiv 1906.03731, Section 3.
    Differs: Edin et al. (2024) divide every class's scores by their sum, which `Transformed` does with "normalize".

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2]), torch.tensor([[0, 1]])
        >>> signed, positive = (
        ...     AttentionGradient(sign).attribute(random_bert(), inputs, targets).scores
        ...     for sign in ("signed", "nonnegative")
        ... )
        >>> bool((positive >= signed).all()), bool((positive >= 0).all())
        (True, True)
    """

    needs_attentions = True
    by_segment = True

    def __init__(self, sign: Sign = "absolute", layers: Layers = "last") -> None:
        require_choices({"sign": Sign, "layers": Layers}, {"sign": sign, "layers": layers})
        self.sign: Sign = sign
        self.layers = layers

    @property
    def has_sign(self) -> bool:
        return self.sign == "signed"

    def needs(self, model: Classifier) -> Needs:
        # with `embeds`, embeddings require a gradient, so attention is differentiable even if all weights are frozen
        return Needs(embeds=True, attentions=not model.readout_is_attention, double_backward=True)

    def from_pass(self, forward_pass: ForwardPass, targets: Tensor, *, create_graph: bool) -> Tensor:
        output = forward_pass.output
        if forward_pass.network.readout_is_attention:
            if self.layers == "all":
                raise ValueError("layers is 'all', but the classification head attends to tokens: set layers to 'last'")
            return self._head_scores(forward_pass, targets, create_graph=create_graph)
        attentions = encoder_attentions(output)[-1:] if self.layers == "last" else encoder_attentions(output)
        columns = []
        for gradients in target_gradients(
            output.logits, targets, attentions, create_graph=create_graph, keep_graph=forward_pass.shared
        ):
            products = [a * with_sign(g, self.sign) for a, g in zip(attentions, gradients, strict=True)]
            mixing = torch.stack([product.mean(dim=1) for product in products]).mean(dim=0)
            columns.append(read_tokens(output.readout, mixing).squeeze(1))
        return torch.stack(columns, dim=1)

    def _head_scores(self, forward_pass: ForwardPass, targets: Tensor, *, create_graph: bool) -> Tensor:
        """Returns scores [B, K, T] from the attention of the classification head."""
        logits, readout = forward_pass.output.logits, forward_pass.output.readout  # [B, C], [B, 1 or C, T]
        keep = create_graph or forward_pass.shared
        if readout.shape[1] == 1:  # all classes share the same attention weights
            gradients = target_gradients(
                logits, targets, readout, create_graph=create_graph, keep_graph=forward_pass.shared
            )
            gradient = torch.cat([*gradients], dim=1)
        else:
            # a logit depends only on the attention of its own class, so one backward pass from the sum of the logits
            # gives the gradients of all classes. `scatter` includes a class in the sum only once, even if it occurs
            # twice in `targets`
            is_target = torch.zeros_like(logits).scatter(1, targets, 1.0)
            (gradient,) = torch.autograd.grad(
                (logits * is_target).sum(), readout, retain_graph=keep, create_graph=create_graph
            )
            gradient = target_rows(gradient, targets)
        return target_rows(readout, targets) * with_sign(gradient, self.sign)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        """Returns an upper bound on the number of passes. Fewer are needed if classes share a backward pass."""
        return Passes(forward=1, backward=num_targets)
