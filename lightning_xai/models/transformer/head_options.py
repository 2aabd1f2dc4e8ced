"""Options of transformers' classification heads: their activation and their dropout."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.activations import ACT2FN

_DROPOUT_NAMES = ("classifier_dropout", "seq_classif_dropout")


def set_head_dropout(config: PretrainedConfig, dropout: float) -> None:
    """Sets the dropout probability of the classification head in a config, before the network is built.

    Raises:
        ValueError: `dropout` is not in [0, 1), or the architecture's head has no separate dropout.

    Example:
        >>> from transformers import BertConfig
        >>> config = BertConfig()
        >>> set_head_dropout(config, 0.0)
        >>> config.classifier_dropout, config.hidden_dropout_prob
        (0.0, 0.1)
    """
    if not 0 <= dropout < 1:
        raise ValueError(f"head_dropout is {dropout}: give a probability of at least 0 and below 1")
    names = [name for name in _DROPOUT_NAMES if hasattr(config, name)]
    if not names:
        raise ValueError(
            f"head_dropout is {dropout}, but the head of {config.model_type} has no separate dropout: omit head_dropout"
        )
    for name in names:
        setattr(config, name, dropout)


def set_head_activation(transformer: PreTrainedModel, activation: str) -> None:
    """Replaces the activation function of a classification head.

    Args:
        transformer: a BERT, BigBird or ELECTRA with a sequence classification head.
        activation: name of the function in transformers, such as "tanh" or "gelu".

    Raises:
        ValueError: the name is unknown, or the head's activation cannot be replaced.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> transformer = random_bert().transformer
        >>> set_head_activation(transformer, "relu")
        >>> transformer.base_model.pooler.activation
        ReLU()
    """
    if activation not in ACT2FN:
        raise ValueError(f"head_activation is {activation!r}: choose an activation of transformers, such as 'tanh'")
    network: Any = transformer
    head: Any = getattr(network, "classifier", None)
    pooler: Any = getattr(network.base_model, "pooler", None)
    if network.config.model_type == "big_bird":
        # BigBird's head reads its activation from its config in each pass. The head gets a copy of the config, so that
        # `network.config` keeps the encoder's activation
        head.config = copy.copy(network.config)
        head.config.hidden_act = activation
    elif isinstance(getattr(head, "activation", None), nn.Module):
        head.activation = ACT2FN[activation]
    elif isinstance(head, nn.Linear) and isinstance(getattr(pooler, "activation", None), nn.Module):
        pooler.activation = ACT2FN[activation]
    else:
        raise ValueError(
            f"head_activation is {activation!r}, but the head of {network.config.model_type} has a fixed activation: "
            "leave head_activation out, or choose BERT, BigBird or ELECTRA"
        )
