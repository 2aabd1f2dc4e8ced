"""Finds the trained weights of an encoder."""

from __future__ import annotations

from torch import nn

from lightning_xai.models.base import Classifier


def encoder_matrices(model: Classifier) -> list[nn.Parameter]:
    """Returns the encoder's trained weight matrices (those that require a gradient), without embedding tables.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> len(encoder_matrices(random_bert()))
        7
    """
    head = {id(parameter) for parameter in model.head_parameters()}
    head.add(id(model.embedding_matrix))
    owners = [module for module in model.modules() if not isinstance(module, nn.Embedding)]
    matrices = {id(p): p for module in owners for p in module.parameters(recurse=False) if p.dim() > 1}
    return [parameter for key, parameter in matrices.items() if key not in head and parameter.requires_grad]
