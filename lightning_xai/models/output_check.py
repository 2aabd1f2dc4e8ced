"""Checks what a network returned."""

from __future__ import annotations

from typing import Any

import torch

from lightning_xai.functional.own_parts import require_type
from lightning_xai.types import ClassifierOutput


def check_output(network: torch.nn.Module, output: Any, num_examples: int) -> None:
    """Raises ValueError if a network's output is not a ClassifierOutput with logits of shape [B, C].

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> check_output(random_bert(), torch.zeros(1, 2), 1)
        Traceback (most recent call last):
        ValueError: HFClassifier.forward returned Tensor: return a ClassifierOutput with logits and readout
    """
    name = type(network).__name__
    require_type(output, ClassifierOutput, f"{name}.forward", "return a ClassifierOutput with logits and readout")
    expected = [num_examples, network.num_classes]
    if list(output.logits.shape) != expected:
        raise ValueError(
            f"{name}.forward returned logits of shape {list(output.logits.shape)}: return [B, C], that is, {expected}"
        )
