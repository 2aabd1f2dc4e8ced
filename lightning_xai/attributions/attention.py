"""The attention weights with which the head reads tokens."""

from __future__ import annotations

from torch import Tensor

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.attention import token_attention
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


class Attention(DifferentiableAttribution):
    """Scores tokens by the class's cross-attention, or by the last layer's [CLS] row averaged over heads.

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
    Records", arXiv 2406.08958, Section 3.
    Differs: the released code also softmaxes over padding; see `mask_mode` of the model.
    """

    needs_attentions = True

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        output = model(inputs, output_attentions=not model.readout_is_attention)
        return token_attention(output, targets, readout_is_attention=model.readout_is_attention)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=0)
