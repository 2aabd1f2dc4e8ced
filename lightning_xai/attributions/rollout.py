"""Attention followed through all layers."""

from __future__ import annotations

from torch import Tensor

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.attention import encoder_attentions, read_for_targets, rollout
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


class AttentionRollout(DifferentiableAttribution):
    """Scores tokens by the product of the attention matrices of all layers, averaged over heads.

    The identity matrix stands for the skip connection of each layer. The row of the product from which the head reads
    ([CLS] or the last token, or a mixture of rows where the head attends to tokens) has the scores.

    Passes: one forward pass for all classes.

    Args:
        residual_fraction: fraction of a state that the skip connection carries; 0.5 is the paper's 0.5 A + 0.5 I.

    Reference: Abnar and Zuidema (2020), "Quantifying Attention Flow in Transformers", arXiv 2005.00928.
    Differs: Edin et al. (2024) release A + I / 2 without normalizing rows, read by an attention whose softmax runs over
    classes instead of tokens.

    Example:
        >>> import torch
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2]), torch.tensor([[0, 1]])
        >>> scores = AttentionRollout().attribute(random_bert(), inputs, targets).scores
        >>> torch.allclose(scores.sum(dim=2), torch.ones(1, 2))
        True
        >>> bool(scores[0, 0, 0] >= 0.5)  # the skip connection of [CLS], from which the head reads
        True
    """

    needs_attentions = True

    def __init__(self, residual_fraction: float = 0.5) -> None:
        if not 0 <= residual_fraction < 1:
            raise ValueError(f"residual_fraction is {residual_fraction}: give a fraction from 0, below 1")
        self.residual_fraction = residual_fraction

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        output = model(inputs, output_attentions=True)
        attentions, residual = encoder_attentions(output), self.residual_fraction
        return read_for_targets(output.readout, targets, lambda rows: rollout(rows, attentions, residual=residual))

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=0)
