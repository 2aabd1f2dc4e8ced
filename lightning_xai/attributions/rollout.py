"""Attention rollout: attention matrices multiplied over all layers."""

from __future__ import annotations

from torch import Tensor

from lightning_xai.attributions.base import OnePassAttribution
from lightning_xai.functional.attention import encoder_attentions, read_for_targets, rollout
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import ForwardPass, Needs
from lightning_xai.types import Passes


class AttentionRollout(OnePassAttribution):
    """Scores tokens by the product of the attention matrices of all layers, each averaged over attention heads.

    In each layer, the attention matrix is mixed with the identity matrix, which stands for the skip connection. The
    product has one row for each token. The scores are the row of the token that the classification head reads ([CLS] or
    the last token). If the head reads the mean of all states, the scores are the mean of all rows; if it attends to
    tokens, the scores are the sum of all rows, weighted by its attention.

    Passes: one forward pass for all classes.

    Args:
        residual_fraction: r in (1 - r) A + r I, the mixture of attention matrix A and identity matrix I. The paper uses
            0.5.

    Reference: Abnar and Zuidema (2020), "Quantifying Attention Flow in Transformers", arXiv 2005.00928.
    Differs: the released code of Edin et al. (2024) multiplies matrices A + I / 2, whose rows do not sum to 1. In
    that code, the rows of the product are weighted by attention whose softmax runs over classes instead of tokens.

    Example:
        >>> import torch
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2]), torch.tensor([[0, 1]])
        >>> scores = AttentionRollout().attribute(random_bert(), inputs, targets).scores
        >>> torch.allclose(scores.sum(dim=2), torch.ones(1, 2))
        True
        >>> bool(scores[0, 0, 0] >= 0.5)  # the head reads [CLS], which gets at least half by the skip connection
        True
    """

    needs_attentions = True
    has_sign = False

    def __init__(self, residual_fraction: float = 0.5) -> None:
        if not 0 <= residual_fraction < 1:
            raise ValueError(f"residual_fraction is {residual_fraction}: give a fraction of at least 0 and below 1")
        self.residual_fraction = residual_fraction

    def needs(self, model: Classifier) -> Needs:
        return Needs(attentions=True)

    def from_pass(self, forward_pass: ForwardPass, targets: Tensor, *, create_graph: bool) -> Tensor:
        attentions, residual = encoder_attentions(forward_pass.output), self.residual_fraction
        return read_for_targets(
            forward_pass.output.readout, targets, lambda rows: rollout(rows, attentions, residual=residual)
        )

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=0)
