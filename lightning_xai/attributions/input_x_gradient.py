"""Token embeddings times the gradients of the logit."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.aggregation import Pooling, pool
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.gradients import differentiable_embeds, target_gradients
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


class InputXGradient(DifferentiableAttribution):
    """Scores tokens by the product of their embeddings with the gradient of the class's logit.

    Args:
        pooling: what a token makes of its D products: "l2" as in Edin et al. (2024), the signed "sum" as in ER.
            The sum is 0 but for rounding where a LayerNorm takes the embeddings as they are (word embeddings of
            DeBERTa-v2 and ModernBERT), since scaling a token then changes nothing.

    Reference: Shrikumar et al. (2017), "Not Just a Black Box: Learning Important Features Through Propagating
    Activation Differences", arXiv 1605.01713, Section 3.
    """

    def __init__(self, pooling: Pooling = "l2") -> None:
        require_choices({"pooling": Pooling}, {"pooling": pooling})
        self.pooling = pooling

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        embeds = differentiable_embeds(model, inputs, create_graph=create_graph)
        logits = model(inputs, embeds).logits
        # what leaves the graph without create_graph must not be held by it
        factor = embeds if create_graph else embeds.detach()
        gradients = target_gradients(logits, targets, embeds, create_graph=create_graph)
        return torch.stack([pool(factor * gradient, self.pooling) for gradient in gradients], dim=1)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=num_targets)
