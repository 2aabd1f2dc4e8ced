"""Compares the settings of two architectures, which may differ even if all weights have the same shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import transformers

from lightning_xai.models.base import Classifier
from lightning_xai.models.pretrained.config_keys import known_keys
from lightning_xai.runs.renamed_classes import current_spec

# constructor arguments that do not affect the forward pass. Most of them choose the origin of weights, their initial
# values, or the part of the network that is explained
_ARGUMENTS_WITHOUT_EFFECT = {
    "path", "pretrained", "config", "embedding", "trust_remote_code", "word_vectors", "mask_row", "mask_id", "pad_id",
}  # fmt: skip
_SETTINGS_WITHOUT_EFFECT = {
    "attn_implementation", "experts_implementation", "bos_token_id", "cls_token_id", "sep_token_id", "mask_token_id",
    "chunk_size_feed_forward", "gradient_checkpointing", "init_std", "initializer_factor", "initializer_range",
    "name_or_path", "task_specific_params", "tie_word_embeddings", "tokenizer_class", "torchscript", "use_bfloat16",
    "use_cache",
}  # fmt: skip


class SettingDifference(NamedTuple):
    """A setting whose value differs between two networks.

    Example:
        >>> SettingDifference("num_attention_heads", 2, 4).given
        2
    """

    name: str
    given: Any
    needed: Any


def network_spec(network: Classifier) -> dict[str, Any]:
    """Returns the class and the constructor arguments of a network, in the form that checkpoints store.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> network_spec(random_bert(num_classes=3))["init_args"]["num_classes"]
        3
    """
    kind = type(network)
    return {"class_path": f"{kind.__module__}.{kind.__qualname__}", "init_args": network.architecture()}


def first_setting_difference(given: dict[str, Any], needed: dict[str, Any]) -> SettingDifference | None:
    """Returns the first setting that affects the forward pass and differs between two networks; None if all are equal.

    The class is compared first, then settings in alphabetical order. Settings that only one network has are ignored,
    since they may come from different versions of transformers.

    Args:
        given, needed: the results of `network_spec` for two networks.

    Example:
        >>> from lightning_xai.models.bilstm import BiLSTMAttention
        >>> single, paired = (network_spec(BiLSTMAttention(9, paired=paired)) for paired in (False, True))
        >>> first_setting_difference(single, paired)
        SettingDifference(name='paired', given=False, needed=True)
        >>> first_setting_difference(single, single) is None
        True
    """
    sides = [_settings(current_spec(spec)) for spec in (given, needed)]
    for name in sorted(sides[0].keys() & sides[1].keys(), key=lambda name: (name != "class_path", name)):
        if sides[0][name] != sides[1][name]:
            return SettingDifference(name, sides[0][name], sides[1][name])
    return None


def check_architecture(spec: dict[str, Any], network: Classifier, path: str | Path) -> None:
    """Raises ValueError if two networks differ in a setting that affects the forward pass.

    Args:
        spec: the result of `network_spec` for the network whose weights are at `path`.
        network: the network into which these weights will be loaded.

    Example:
        >>> from lightning_xai.models.bilstm import BiLSTMAttention
        >>> network = BiLSTMAttention(9, paired=True)
        >>> check_architecture(network_spec(network), network, "x")
        >>> check_architecture(network_spec(BiLSTMAttention(9)), network, "x")
        Traceback (most recent call last):
        ValueError: x does not fit this configuration: paired is False in the file, but True here; use ...
    """
    difference = first_setting_difference(spec, network_spec(network))
    if difference is not None:
        raise ValueError(
            f"{path} does not fit this configuration: {difference.name} is {difference.given!r} in the file, but "
            f"{difference.needed!r} here; use the config.yaml of the run that wrote the file, or evaluate.yaml"
        )


def _settings(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns the class path, the constructor arguments and the config settings of a network, in one dictionary.

    Arguments and settings that cannot change a forward pass in eval mode, such as dropout, are left out.
    """
    arguments, config = spec["init_args"], dict(spec["init_args"].get("config") or {})
    settings = {"class_path": spec["class_path"]}
    settings |= {name: value for name, value in arguments.items() if name not in _ARGUMENTS_WITHOUT_EFFECT}
    if config.get("model_type") in transformers.CONFIG_MAPPING:
        read = known_keys(transformers.CONFIG_MAPPING[config["model_type"]]) - _SETTINGS_WITHOUT_EFFECT
        settings |= {name: value for name, value in config.items() if name in read}
    return {name: value for name, value in settings.items() if "drop" not in name}
