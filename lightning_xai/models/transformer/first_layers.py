"""Reduces a Hugging Face network to its first layers, which makes forward and backward passes cheaper."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn
from transformers import PretrainedConfig, PreTrainedModel


def keep_first_layers(config: PretrainedConfig, num_layers: int) -> None:
    """Changes a config so that its network has only the first `num_layers` layers.

    Raises:
        ValueError: `num_layers` is below 1 or above the config's `num_hidden_layers`, or the config has no such key.

    Example:
        >>> from transformers import BertConfig
        >>> config = BertConfig()
        >>> keep_first_layers(config, 3)
        >>> config.num_hidden_layers
        3
    """
    num_before = getattr(config, "num_hidden_layers", None)
    if num_before is None:
        raise ValueError(
            f"num_layers is {num_layers}, but {config.model_type} has no num_hidden_layers: leave num_layers out"
        )
    if not 1 <= num_layers <= num_before:
        raise ValueError(f"num_layers is {num_layers}: give 1 to {num_before} (all layers of this {config.model_type})")
    config.num_hidden_layers = num_layers
    kinds = getattr(config, "layer_types", None)  # type of the attention in each layer, such as "full_attention"
    if kinds is not None:
        config.layer_types = kinds[:num_layers]


def without_left_out_layers(names: Iterable[str], network: PreTrainedModel, num_layers: int) -> set[str]:
    """Returns `names` without the weights of those layers that `keep_first_layers` removed from a network.

    Args:
        names: names of weights in the pretrained folder, with or without the encoder's prefix.
        network: the network after `keep_first_layers`.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> sizes = dict(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
        >>> names = ["bert.encoder.layer.1.output.dense.bias", "encoder.layer.2.output.dense.bias", "score.bias"]
        >>> without_left_out_layers(names, BertModel(BertConfig(**sizes)), num_layers=1)
        {'score.bias'}
    """
    prefix = f"{network.base_model_prefix}."
    lists = {
        f"{name}."
        for name, module in network.base_model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == num_layers
    }

    def is_left_out(name: str) -> bool:
        own_name = name.removeprefix(prefix)
        rest = next((own_name.removeprefix(path) for path in lists if own_name.startswith(path)), "")
        number = rest.partition(".")[0]
        return number.isdecimal() and int(number) >= num_layers

    return {name for name in names if not is_left_out(name)}
