"""Attention weights of the classification head or of the last encoder layer, used as scores."""

from __future__ import annotations

from torch import Tensor

from lightning_xai.attributions.base import OnePassAttribution
from lightning_xai.functional.attention import token_attention
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import ForwardPass, Needs
from lightning_xai.types import Passes


class Attention(OnePassAttribution):
    """Scores tokens by attention weights: of the classification head or, if it has none, of the last encoder layer.

    If the classification head attends to tokens, the scores are its weights for the class. Any other classification
    head reads the state of one token ([CLS] or the last token) or the mean of all states. The scores are then attention
    weights of the last encoder layer, from the token that the classification head reads to all tokens, averaged over
    attention heads. If the classification head reads the mean of all states, the weights are also averaged over the
    tokens that it reads. These scores are the same for every class.

    Passes: one forward pass for all classes.

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
    Records", arXiv 2406.08958, Section 3.
    Differs: in the released code, the softmax includes padding; here, PLMCA includes it only with mask_mode="legacy".

    Example:
        >>> import torch
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2]), torch.tensor([[0, 1]])
        >>> scores = Attention().attribute(random_bert(), inputs, targets).scores
        >>> torch.allclose(scores.sum(dim=2), torch.ones(1, 2))
        True
    """

    needs_attentions = True
    has_sign = False

    def needs(self, model: Classifier) -> Needs:
        return Needs(attentions=not model.readout_is_attention)

    def from_pass(self, forward_pass: ForwardPass, targets: Tensor, *, create_graph: bool) -> Tensor:
        return token_attention(
            forward_pass.output, targets, readout_is_attention=forward_pass.network.readout_is_attention
        )

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=0)
