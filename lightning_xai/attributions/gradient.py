"""Plain gradients of the logit with respect to the token embeddings."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.aggregation import Pooling, pool
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.gradients import differentiable_embeds, target_gradients
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


class Gradient(DifferentiableAttribution):
    """Scores tokens by the gradient of the class's logit with respect to their embeddings.

    Args:
        pool: what a token makes of its D values.

    Reference: Simonyan et al. (2014), "Deep Inside Convolutional Networks: Visualising Image Classification Models and
    Saliency Maps", arXiv 1312.6034, Section 3.
    """

    def __init__(self, pool: Pooling = "l2") -> None:
        require_choices({"pool": Pooling}, {"pool": pool})
        self.pool = pool

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        embeds = differentiable_embeds(model, inputs, create_graph=create_graph)
        logits = model(inputs, embeds).logits
        gradients = target_gradients(logits, targets, embeds, create_graph=create_graph)
        return torch.stack([pool(gradient, self.pool) for gradient in gradients], dim=1)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=num_targets)
