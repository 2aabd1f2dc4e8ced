"""The inner search of token masking. It looks for a small mask that hardly changes the predicted probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.classes.class_outputs import logits_only
from lightning_xai.functional.network.modes import frozen
from lightning_xai.functional.network.recomputation import layers_recomputed
from lightning_xai.models.base import Classifier
from lightning_xai.objectives.inner_search import Minimum, Search, minimize_rows
from lightning_xai.objectives.losses import probability_distances
from lightning_xai.types import TextInputs

Mask = Literal["token", "dimension"]
Sparsity = Literal["mean", "sum"]

DEFAULT_SEARCH = Search(num_steps=20, lr=0.1, weight_decay=0.01, tolerance=None)
INITIAL_MASK = 2.0  # sigmoid(2) = 0.881


def mask_sizes(masks: Tensor, token_mask: Tensor, *, sparsity: Sparsity) -> Tensor:
    """Returns the sizes [B] of `masks` [B, T, 1 or D].

    The size of a mask is the mean or the sum of its values over the tokens in `token_mask` [B, T] and all dimensions.

    Example:
        >>> masks, token_mask = torch.tensor([[[0.5], [0.25], [1.0]]]), torch.tensor([[True, True, False]])
        >>> mask_sizes(masks, token_mask, sparsity="sum").item(), mask_sizes(masks, token_mask, sparsity="mean").item()
        (0.75, 0.375)
    """
    sums = (masks * token_mask.unsqueeze(-1)).flatten(1).sum(dim=1)
    if sparsity == "sum":
        return sums
    return sums / (token_mask.sum(dim=1).clamp_min(1) * masks.shape[-1])


def sparse_variable(
    network: Classifier,
    inputs: TextInputs,
    search: Search = DEFAULT_SEARCH,
    *,
    mask: Mask = "token",
    fidelity_weight: float = 0.01,
    sparsity: Sparsity = "mean",
) -> Minimum:
    """Finds a variable m [B, T, 1 or D] such that the mask sigmoid(m) is small and hardly changes the probabilities.

    The masked input is mask * x + (1 - mask) * baseline. Here x are the embeddings of `inputs.input_ids`, and baseline
    are the embeddings of `inputs.baseline_ids`. The search minimizes (size of the mask) + fidelity_weight * (L1 change
    of the probabilities).

    Args:
        search: settings of the search.
        mask: "token" for one value per token, "dimension" for one value per embedding dimension of each token.
        fidelity_weight: factor of the change of the probabilities.
        sparsity: how the size of the mask is computed: as its "mean" or its "sum" over the tokens that are not padding.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> network, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
        >>> free = sparse_variable(network, inputs, Search(num_steps=40), fidelity_weight=0.0).variable
        >>> bool((free < 0).all())  # without the fidelity term, every mask ends below 0.5
        True
    """
    with frozen(network), layers_recomputed(network):
        embeds = network.embed(inputs).detach()
        baseline = network.embed(replace(inputs, input_ids=inputs.baseline_ids)).detach()
        with torch.no_grad():
            probs = network.probabilities(logits_only(network, inputs, embeds))

        def values(variable: Tensor) -> Tensor:
            masks = variable.sigmoid()
            mixed = torch.lerp(baseline.to(masks.dtype), embeds.to(masks.dtype), masks)
            masked = network.probabilities(logits_only(network, inputs, mixed.to(embeds.dtype)))
            sizes = mask_sizes(masks, inputs.attention_mask, sparsity=sparsity)
            return sizes + fidelity_weight * probability_distances(masked, probs)

        width = 1 if mask == "token" else embeds.shape[-1]
        dtype = torch.promote_types(embeds.dtype, torch.float32)
        start = torch.full((*embeds.shape[:2], width), INITIAL_MASK, device=embeds.device, dtype=dtype)
        return minimize_rows(
            values,
            start,
            search,
            # with sparsity "mean", the mean over D dimensions divides gradients by D. This factor undoes the division;
            # otherwise, gradients could be so small that AdamW's epsilon would shorten the steps
            gradient_scale=width,
        )


def masked_logits(network: Classifier, inputs: TextInputs, keep: Tensor) -> Tensor:
    """Returns the logits [B, C] when everything outside `keep` is replaced by embeddings of `inputs.baseline_ids`.

    Args:
        keep: [B, T, 1] bool for whole tokens, or [B, T, D] for embedding dimensions.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> network, inputs = random_bert(), TextInputs.of_ids([[1, 5, 2]], special_ids=[1, 2])
        >>> torch.allclose(masked_logits(network, inputs, torch.ones(1, 3, 1).bool()), network(inputs).logits)
        True
    """
    if keep.shape[-1] == 1:
        kept = torch.where(keep.squeeze(-1), inputs.input_ids, inputs.baseline_ids)
        return logits_only(network, replace(inputs, input_ids=kept))
    baseline = network.embed(replace(inputs, input_ids=inputs.baseline_ids))
    return logits_only(network, inputs, torch.where(keep, network.embed(inputs), baseline))
