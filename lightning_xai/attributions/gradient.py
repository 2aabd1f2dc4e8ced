"""Plain gradients of the logit with respect to the token embeddings."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.attributions.base import OnePassAttribution
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.scores.aggregation import Pooling, pool, vocabulary_norm
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import ForwardPass, Needs
from lightning_xai.types import Passes

GradientPooling = Literal[Pooling, "vocabulary"]


class Gradient(OnePassAttribution):
    """Scores tokens by the gradient of the class's logit with respect to their embeddings.

    Passes: one forward pass, and one backward pass for each class.

    Args:
        pooling: how the D values of a token's gradient become one score: "l2", "l1", "sum" or "mean" (see `pool`), or
            "vocabulary", the L2 norm of the gradient with respect to the token's one-hot vector, as in Madsen et al.
            (2022), arXiv 2110.08412, Section 4.

    Reference: Simonyan et al. (2014), "Deep Inside Convolutional Networks: Visualising Image Classification Models and
    Saliency Maps", arXiv 1312.6034, Section 3.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2]), torch.tensor([[0, 1]])
        >>> scores = Gradient("l2").attribute(random_bert(), inputs, targets).scores
        >>> scores.shape, bool((scores >= 0).all())  # norms
        (torch.Size([1, 2, 4]), True)
    """

    by_segment = True
    is_sensitivity = True  # a gradient says how a change of the token changes the logit, not what the token adds to it

    def __init__(self, pooling: GradientPooling = "l2") -> None:
        require_choices({"pooling": GradientPooling}, {"pooling": pooling})
        self.pooling: GradientPooling = pooling

    def needs(self, model: Classifier) -> Needs:
        return Needs(embeds=True, double_backward=True)

    def from_pass(self, forward_pass: ForwardPass, targets: Tensor, *, create_graph: bool) -> Tensor:
        assert forward_pass.embeds is not None, "the forward pass must provide `embeds`"
        gradients = forward_pass.target_gradients(targets, create_graph=create_graph)
        return torch.stack([self._pool(gradient, forward_pass.network) for gradient in gradients], dim=1)

    def _pool(self, gradient: Tensor, model: Classifier) -> Tensor:
        if self.pooling == "vocabulary":
            return vocabulary_norm(gradient, model.embedding_matrix)
        return pool(gradient, self.pooling)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=num_targets)
