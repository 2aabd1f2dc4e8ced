"""Compares the weights in a pretrained folder with those that the network's forward pass uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    PretrainedConfig,
    PreTrainedModel,
)


class WeightGaps(NamedTuple):
    """Names of weights that are only in the network, and of weights that are only in its pretrained folder.

    Example:
        >>> WeightGaps(fresh=("classifier.weight",)).unread
        ()
    """

    fresh: tuple[str, ...] = ()  # weights that the folder lacks, so they start at random
    unread: tuple[str, ...] = ()  # weights that only the folder has; the trained network may have used them


def shown(names: Collection[str]) -> str:
    """Returns a text with the alphabetically first name, and how many other names there are.

    Example:
        >>> shown(["b", "a"]), shown(["a"])
        ('a and 1 other', 'a')
    """
    others = len(names) - 1
    return min(names) + ("" if not others else f" and {others} other{'s' if others > 1 else ''}")


def refuse_gaps(gaps: WeightGaps, path: str, *, remedy: str = "fit this network first") -> None:
    """Raises ValueError if weights are missing or unused, since the network then differs from the trained network.

    Args:
        gaps: the missing and unused weights.
        path: origin of the weights, for the message.
        remedy: what to do if weights are missing, for the message.

    Example:
        >>> refuse_gaps(WeightGaps(), "folder")
        >>> refuse_gaps(WeightGaps(fresh=("classifier.weight", "classifier.bias")), "folder")
        Traceback (most recent call last):
        ValueError: folder: no weights for classifier.bias and 1 other, so they would be random: fit this network first
    """
    if gaps.fresh and gaps.unread:
        raise ValueError(
            f"{path} has no weights for {shown(gaps.fresh)}, but has weights {shown(gaps.unread)}, which this network "
            "lacks: rename these weights, or fit this network first"
        )
    if gaps.fresh:
        raise ValueError(f"{path}: no weights for {shown(gaps.fresh)}, so they would be random: {remedy}")
    if gaps.unread:
        raise ValueError(
            f"{path} has weights {shown(gaps.unread)}, which this network does not have: correct config.json, so that "
            "it describes the trained network"
        )


def gap_lines(gaps: WeightGaps, path: str) -> list[str]:
    """Returns up to two lines: one about weights that start at random, and one about weights that are not used.

    Example:
        >>> gap_lines(WeightGaps(fresh=("classifier.weight",)), "folder")
        ['folder has no weights for classifier.weight: they start at random']
    """
    lines = []
    if gaps.fresh:
        lines.append(f"{path} has no weights for {shown(gaps.fresh)}: they start at random")
    if gaps.unread:
        lines.append(f"{path} has weights {shown(gaps.unread)}, which this network does not have: they are not used")
    return lines


def weight_gaps(network: PreTrainedModel, missing: Iterable[str], unexpected: Iterable[str]) -> WeightGaps:
    """Returns the missing and unexpected weights that may make the loaded network differ from the trained network.

    A missing weight is returned if the output depends on it. An unexpected weight of the encoder is always returned. An
    unexpected weight outside the encoder is returned if it may belong to a trained head. It is left out if the loaded
    network has no head, or if a pretraining network of transformers, such as a language model, has a weight of this
    name.

    Args:
        network: the loaded network, whose missing weights are random.
        missing: names of weights that are in the network, but not in the folder.
        unexpected: names of weights that are in the folder, but not in the network.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> sizes = dict(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
        >>> network = BertForSequenceClassification(BertConfig(**sizes)).eval()
        >>> weight_gaps(network, ["classifier.bias"], ["score.bias", "cls.predictions.bias"])
        WeightGaps(fresh=('classifier.bias',), unread=('score.bias',))
    """
    return WeightGaps(tuple(sorted(_read(network, set(missing)))), tuple(sorted(_foreign(network, set(unexpected)))))


def in_encoder(network: PreTrainedModel, name: str) -> bool:
    """Returns whether a weight belongs to the network's encoder, given its name with or without the encoder's prefix.

    The pooler counts as part of the head, since only the head uses its output.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> sizes = dict(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
        >>> network = BertForSequenceClassification(BertConfig(**sizes))
        >>> names = ["bert.encoder.layer.5.bias", "encoder.layer.5.bias", "bert.pooler.dense.bias", "classifier.bias"]
        >>> [in_encoder(network, name) for name in names]
        [True, True, False, False]
    """
    base: Any = network.base_model
    parts = {name for name, _ in base.named_children()} | {name for name, _ in base.named_parameters(recurse=False)}
    own_name = name.removeprefix(f"{network.base_model_prefix}.")
    first = own_name.partition(".")[0]
    return first != "pooler" and (own_name != name or first in parts)


def _read(network: PreTrainedModel, names: set[str]) -> set[str]:
    """Returns those `names` whose weights affect the output for a short text. Names of buffers are always returned."""
    weights = {name: weight for name, weight in network.named_parameters() if name in names}
    if not weights:
        return names  # all of them are buffers, which are always returned
    config: Any = network.config
    token = 1 if config.pad_token_id == 0 else 0
    # the short text ends with the end token, because some heads read the state of this token
    last = config.eos_token_id if isinstance(config.eos_token_id, int) else token
    with torch.enable_grad():
        try:
            output: Any = network(torch.tensor([[token, token, last]]), return_dict=True)
        # the network may raise any error; the classifier's constructor runs the network again and reports the error
        except Exception:
            return names
        state = output.logits if "logits" in output else output.last_hidden_state
        gradients = torch.autograd.grad(state.sum(), list(weights.values()), allow_unused=True)
    return names - {name for name, gradient in zip(weights, gradients, strict=True) if gradient is None}


def _foreign(network: PreTrainedModel, names: set[str]) -> set[str]:
    """Returns those `names` that belong to the encoder or may belong to a trained head.

    A name outside the encoder may belong to a trained head if the network has a head, and if no pretraining network of
    transformers (such as a language model) has a weight of this name.
    """
    encoder = {name for name in names if in_encoder(network, name)}
    others = names - encoder
    if not others or network.base_model is network:
        return encoder
    prefix = f"{network.base_model_prefix}."
    known = {name.removeprefix(prefix) for name in _weights_for_other_tasks(network.config)}
    return encoder | {name for name in others if name.removeprefix(prefix) not in known}


def _weights_for_other_tasks(config: PretrainedConfig) -> set[str]:
    """Returns all weight names in transformers' pretraining networks (language models, ...) for this architecture."""
    auto_classes: list[Any] = [AutoModel, AutoModelForPreTraining, AutoModelForMaskedLM, AutoModelForCausalLM]
    names: set[str] = set()
    with torch.device("meta"):
        for auto_class in auto_classes:
            if type(config) in auto_class._model_mapping:
                network: nn.Module = auto_class.from_config(config, trust_remote_code=False)
                names |= set(network.state_dict())
    return names
