"""Tiny random networks, on which the laws (required properties) of methods and objectives are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from lightning_xai.functional.laws import CLS, PAD, SEP, VOCAB_SIZE
from lightning_xai.models.base import Classifier

Network = TypeVar("Network", bound=Classifier)
TINY_BERT: dict[str, Any] = {
    "model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 160, "vocab_size": VOCAB_SIZE, "pad_token_id": PAD, "bos_token_id": CLS,
    "eos_token_id": SEP,
}  # fmt: skip


def with_large_weights(make: Callable[[], Network], *, seed: int = 0) -> Network:
    """Returns a network in eval mode, with random weights as large as trained ones, so that scores are not near 0.

    The global random state does not change.

    Args:
        make: builds the network.
        seed: seed of the weights.

    Example:
        >>> from lightning_xai.models.hf_classifier import HFClassifier
        >>> network = with_large_weights(lambda: HFClassifier(config=TINY_BERT, num_classes=3))
        >>> 0.2 < network.embedding_matrix.std().item() < 0.4
        True
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = make()
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(std=0.3)
                else:
                    parameter.add_(0.1 * torch.randn_like(parameter))
    return network.eval()
