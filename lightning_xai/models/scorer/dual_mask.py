"""The dual-mask loss of a mask that keeps some tokens of a text.

The loss is small if few tokens are kept, if they alone give the same prediction as the whole text, and if the other
tokens alone do not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.gradients.target_gradients import EmbeddingModel
from lightning_xai.functional.text.scorer_inputs import ScorerInputs
from lightning_xai.types import TextInputs

Inverse = Literal["log_complement", "probability", "negative_entropy"]
Size = Literal["log_complement", "mean"]
Fill = Literal["token", "zero"]


@dataclass(frozen=True)
class DualMask:
    """Settings of the dual-mask loss, kept_weight * kept + inverse_weight * inverse + size_weight * size.

    Args:
        kept_weight: factor lambda_p of the term `kept`: the cross-entropy between the prediction for the masked text
            and the prediction y that the masked text should have.
        inverse_weight: factor lambda_inv of the term `inverse`. This term is computed for the inversely masked text, in
            which each mask value a is replaced by 1 - a.
        size_weight: factor lambda_a of the term `size`.
        inverse: the term `inverse`. "log_complement" is -log(1 - F_c) and "probability" is F_c, where c is the most
            probable class in y, and F_c is the probability of c for the inversely masked text. "negative_entropy" is
            the negative entropy of the prediction for the inversely masked text.
        size: how the mask values a of the explainable tokens are averaged: "log_complement" takes the mean of
            -log(1 - a), "mean" the mean of a.
        fill: embedding that replaces masked tokens: "token" is the fill token's embedding, "zero" a zero vector.

    Raises:
        ValueError: a factor is negative, or both kept_weight and inverse_weight are 0.

    Example:
        >>> DualMask(kept_weight=0.0, inverse_weight=0.0)
        Traceback (most recent call last):
        ValueError: kept_weight and inverse_weight are 0, so the loss is lowest for an empty mask: raise one of the two
    """

    kept_weight: float = 1.0
    inverse_weight: float = 1.0
    size_weight: float = 0.5
    inverse: Inverse = "log_complement"
    size: Size = "log_complement"
    fill: Fill = "token"

    def __post_init__(self) -> None:
        literals = {"inverse": Inverse, "size": Size, "fill": Fill}
        require_choices(literals, {"inverse": self.inverse, "size": self.size, "fill": self.fill})
        for name in ("kept_weight", "inverse_weight", "size_weight"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: give a factor of at least 0")
        if not self.kept_weight and not self.inverse_weight:
            raise ValueError(
                "kept_weight and inverse_weight are 0, so the loss is lowest for an empty mask: raise one of the two"
            )


def soft_mask(embeds: Tensor, fill: Tensor, keep: Tensor, token_mask: Tensor) -> Tensor:
    """Returns embeddings [B, T, D]: keep * embeds + (1 - keep) * fill inside `token_mask`, and `embeds` outside.

    Args:
        embeds: [B, T, D] embeddings of the tokens.
        fill: [B, T, D] embeddings that replace masked tokens.
        keep: [B, T] in [0, 1], the factor of each token's own embedding.
        token_mask: [B, T] bool, the tokens that may be masked.

    Example:
        >>> keep, token_mask = torch.tensor([[0.25, 0.0]]), torch.tensor([[True, False]])
        >>> soft_mask(torch.ones(1, 2, 1), torch.zeros(1, 2, 1), keep, token_mask).flatten().tolist()
        [0.25, 1.0]
    """
    keep = keep.masked_fill(~token_mask, 1.0).to(embeds.dtype)
    return torch.lerp(fill, embeds, keep.unsqueeze(-1))  # `lerp` is exact where keep is 0 or 1


def dual_mask_losses(
    kept: Tensor,
    inverse: Tensor,
    y: Tensor,
    scorer_logits: Tensor,
    token_mask: Tensor,
    settings: DualMask,
) -> dict[str, Tensor]:
    """Returns the terms "kept", "inverse" and "size", and their weighted sum "loss", each [B].

    Args:
        kept: [B, C] logits of the explained model for the masked texts.
        inverse: [B, C] the same model's logits for the inversely masked texts.
        y: [B, C] the same model's probabilities for the unmasked texts, or one-hot classes.
        scorer_logits: [B, T] logits of the mask.
        token_mask: [B, T] bool, the tokens that may be masked. The size for a text without such tokens is 0.
        settings: factors and forms of the terms.

    Example:
        >>> logits, y = torch.tensor([[0.75, 0.25]]).log(), torch.tensor([[0.0, 1.0]])
        >>> terms = dual_mask_losses(logits, logits, y, torch.zeros(1, 3), torch.ones(1, 3).bool(), DualMask())
        >>> {name: round(value.item(), 3) for name, value in terms.items()}  # -log 0.25, -log 0.75, -log 0.5
        {'kept': 1.386, 'inverse': 0.288, 'size': 0.693, 'loss': 2.021}

    Reference: Barkan et al. (2024), "LLM Explainability via Attributive Masking Learning", Eq. 4-7.
    Differs: the authors' code computes -log(1 - p + 1e-30) with float32 probabilities p, so that gradients explode
        where p rounds to 1. It also averages the term "size" over special tokens.
    """
    kept, inverse = at_least_float32(kept), at_least_float32(inverse)
    scorer_logits = at_least_float32(scorer_logits)
    terms = {"kept": -(y.to(kept.dtype) * kept.log_softmax(dim=-1)).sum(dim=-1)}
    label = y.argmax(dim=-1, keepdim=True)
    if settings.inverse == "log_complement":
        others = inverse.scatter(1, label, -torch.inf)
        terms["inverse"] = inverse.logsumexp(dim=-1) - others.logsumexp(dim=-1)
    elif settings.inverse == "probability":
        terms["inverse"] = inverse.softmax(dim=-1).gather(1, label).squeeze(1)
    else:
        logs = inverse.log_softmax(dim=-1)
        terms["inverse"] = (logs.exp() * logs).sum(dim=-1)
    sizes = F.softplus(scorer_logits) if settings.size == "log_complement" else scorer_logits.sigmoid()
    counts = token_mask.sum(dim=1).clamp(min=1)
    terms["size"] = sizes.masked_fill(~token_mask, 0.0).sum(dim=1) / counts
    weights = {"kept": settings.kept_weight, "inverse": settings.inverse_weight, "size": settings.size_weight}
    terms["loss"] = sum((weights[name] * terms[name] for name in weights), start=torch.zeros_like(terms["size"]))
    return terms


def masked_losses(
    model: EmbeddingModel,
    inputs: TextInputs,
    y: Tensor,
    scorer_logits: Tensor,
    settings: DualMask,
    scorer_inputs: ScorerInputs | None = None,
) -> dict[str, Tensor]:
    """Runs a model on B masked and B inversely masked texts in one batch, and returns their `dual_mask_losses`.

    Gradients reach `scorer_logits`. The caller decides whether they reach the model's weights.

    Args:
        model: the explained model.
        inputs: B texts.
        y: [B, C] the predictions that the masked texts should have.
        scorer_logits: [B, T], or [B, S] if the scorer's own tokenizer divides the texts into S tokens.
        settings: factors and forms of the terms.
        scorer_inputs: the inputs of the scorer; None if the scorer reads the same tokens as the model. The term `size`
            is averaged over the scorer's tokens.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> inputs, y = TextInputs.of_ids([[1, 5, 2]], special_ids=[1, 2]), torch.tensor([[1.0, 0.0]])
        >>> logits = torch.zeros(1, 3, requires_grad=True)
        >>> masked_losses(random_bert(), inputs, y, logits, DualMask())["loss"].sum().backward()
        >>> logits.grad.ne(0).tolist()
        [[False, True, False]]
    """
    with torch.no_grad():
        embeds = model.embed(inputs)
        filled = replace(inputs, input_ids=inputs.baseline_ids)
        fill = model.embed(filled) if settings.fill == "token" else torch.zeros_like(embeds)
    twice = inputs.map(_twice)
    if scorer_inputs is None or scorer_inputs.source_tokens is None:
        keep, masked = torch.cat([scorer_logits.sigmoid(), (-scorer_logits).sigmoid()]), inputs.token_mask
    else:
        carried, masked = scorer_inputs.keep(scorer_logits), scorer_inputs.token_mask
        keep = torch.cat([carried, 1 - carried])
    kept, inverse = model(twice, soft_mask(_twice(embeds), _twice(fill), keep, _twice(masked))).logits.chunk(2)
    counted = inputs.token_mask if scorer_inputs is None else scorer_inputs.inputs.token_mask
    return dual_mask_losses(kept, inverse, y, scorer_logits, counted, settings)


def at_least_float32(values: Tensor) -> Tensor:
    """Returns values of half precision in float32, and other values unchanged.

    Example:
        >>> at_least_float32(torch.ones(1, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _twice(tensor: Tensor) -> Tensor:
    return torch.cat([tensor, tensor])
