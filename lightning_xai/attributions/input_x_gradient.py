"""Token embeddings times the gradients of the logit."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.attributions.base import OnePassAttribution
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.scores.aggregation import Pooling, pool
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import ForwardPass, Needs
from lightning_xai.types import Passes


class InputXGradient(OnePassAttribution):
    """Scores tokens by the product of their embeddings with the gradient of the class's logit.

    Passes: one forward pass, and one backward pass for each class.

    Args:
        pooling: how the D products of a token become one score (see `pool`); Edin et al. (2024) use "l2". The signed
            "sum" is 0, apart from rounding, if a LayerNorm acts directly on the explained embeddings (as on the word
            embeddings of DeBERTa-v2 and ModernBERT), because scaling an embedding then does not change the logits.

    Reference: Shrikumar et al. (2017), "Not Just a Black Box: Learning Important Features Through Propagating
    Activation Differences", arXiv 1605.01713, Section 3.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2]), torch.tensor([[0, 1]])
        >>> total, mean = (
        ...     InputXGradient(pooling).attribute(random_bert(), inputs, targets).scores for pooling in ("sum", "mean")
        ... )
        >>> torch.allclose(total, 4 * mean)  # embeddings of 4 values
        True
    """

    by_segment = True

    def __init__(self, pooling: Pooling = "l2") -> None:
        require_choices({"pooling": Pooling}, {"pooling": pooling})
        self.pooling: Pooling = pooling

    def needs(self, model: Classifier) -> Needs:
        return Needs(embeds=True, double_backward=True)

    def from_pass(self, forward_pass: ForwardPass, targets: Tensor, *, create_graph: bool) -> Tensor:
        embeds = forward_pass.embeds
        assert embeds is not None, "the forward pass must provide `embeds`"
        # without create_graph, the embeddings are detached, so that scores do not keep an autograd graph in memory
        factor = embeds if create_graph else embeds.detach()
        gradients = forward_pass.target_gradients(targets, create_graph=create_graph)
        return torch.stack([pool(factor * gradient, self.pooling) for gradient in gradients], dim=1)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=num_targets)
