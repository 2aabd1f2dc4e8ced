"""Attention followed through all layers."""

from __future__ import annotations

from torch import Tensor

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.attention import encoder_attentions, read_for_targets, rollout
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


class AttentionRollout(DifferentiableAttribution):
    """Scores input tokens by the product of all layers' head-averaged attentions, read as the head reads its states.

    Args:
        residual_fraction: fraction of a state that the skip connection carries; 0.5 is the paper's 0.5 A + 0.5 I.

    Reference: Abnar and Zuidema (2020), "Quantifying Attention Flow in Transformers", arXiv 2005.00928.
    Differs: Edin et al. (2024) release A + I / 2 without normalizing rows, read by attention that was softmaxed over
    classes instead of tokens.
    """

    needs_attentions = True

    def __init__(self, residual_fraction: float = 0.5) -> None:
        if not 0 <= residual_fraction < 1:
            raise ValueError(f"residual_fraction is {residual_fraction}: give a fraction from 0, below 1")
        self.residual_fraction = residual_fraction

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        output = model(inputs, output_attentions=True)
        attentions = encoder_attentions(output)
        return read_for_targets(
            output.readout, targets, lambda rows: rollout(rows, attentions, residual=self.residual_fraction)
        )

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=0)
