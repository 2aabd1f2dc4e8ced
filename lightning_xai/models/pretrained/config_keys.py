"""Finds keys of a transformers config that its architecture does not read. Transformers accepts such keys silently."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import transformers
from transformers import GenerationConfig, PretrainedConfig

from lightning_xai.runs.progress import say

# finds names of settings in code: config.name, getattr(config, "name") and kwargs.pop("name"). Config classes use
# kwargs.pop to read settings under their old names
_READ = re.compile(r"""config\.(\w+)|config,\s*["'](\w+)|kwargs\.(?:pop|get|setdefault)\(\s*["'](\w+)""")
_GENERIC = {
    "model_type", "name_or_path", "attn_implementation", "experts_implementation", "torch_dtype", "per_layer_config",
    "auto_map", "gradient_checkpointing", "task_specific_params", "tokenizer_class", "torchscript", "use_bfloat16",
    "use_cache",
}  # fmt: skip
_is_stored: ContextVar[bool] = ContextVar("_is_stored", default=False)


@contextmanager
def stored_settings() -> Iterator[None]:
    """Accepts all config keys within the context, since a checkpoint may have keys of another transformers version.

    Example:
        >>> with stored_settings():
        ...     check_config_keys(transformers.BertConfig, ["key_of_an_older_version"])
    """
    token = _is_stored.set(True)
    try:
        yield
    finally:
        _is_stored.reset(token)


def known_keys(config_class: type[PretrainedConfig]) -> set[str]:
    """Returns the names of all settings that a config class declares, or that its own or its networks' code reads.

    Example:
        >>> keys = known_keys(transformers.BertConfig)
        >>> "hidden_size" in keys, "hiden_size" in keys
        (True, False)
        >>> "share_att_key" in known_keys(transformers.DebertaV2Config)  # read by the network, not declared
        True
    """
    declared = {field.name for field in dataclasses.fields(config_class)}
    properties = {name for name, value in inspect.getmembers(config_class) if isinstance(value, property)}
    generation = set(GenerationConfig._get_default_generation_params())
    read: set[str] = set()
    for module in _modules_of(config_class):
        read |= {next(filter(None, names)) for names in _READ.findall(inspect.getsource(module))}
    # these two keys were replaced by rope_parameters
    rotary = {"rope_scaling", "rope_theta"} if "rope_parameters" in declared else set()
    return declared | properties | set(config_class.attribute_map) | generation | read | rotary | _GENERIC


def check_config_keys(config_class: type[PretrainedConfig], keys: Iterable[str]) -> None:
    """Raises ValueError if a key is not a setting of the architecture. The message suggests the most similar key.

    Example:
        >>> check_config_keys(transformers.BertConfig, ["hidden_size", "num_labels"])
        >>> check_config_keys(transformers.BertConfig, ["hiden_size"])
        Traceback (most recent call last):
        ValueError: config has the key 'hiden_size', which bert does not read: the nearest known key is 'hidden_size'
    """
    declared = {field.name for field in dataclasses.fields(config_class)} | set(config_class.attribute_map)
    # keys of token ids are always allowed, because this package reads them
    undeclared = {key for key in keys if not key.endswith("_token_id")} - declared
    if not undeclared or _is_stored.get():
        return
    unknown = min(undeclared - known_keys(config_class), default=None)
    if unknown is not None:
        nearest = difflib.get_close_matches(unknown, sorted(declared), n=1, cutoff=0.0)[0]
        raise ValueError(
            f"config has the key {unknown!r}, which {config_class.model_type} does not read: the nearest known key is "
            f"{nearest!r}"
        )


def say_unused_keys(config: Iterable[str]) -> None:
    """Prints a line if a config has keys about classes, which have no effect because the classes come from the data.

    Example:
        >>> say_unused_keys({"model_type": "bert", "num_labels": 3})
        config: num_labels is not used, since the classes of the network are those of the data
    """
    unused = [key for key in ("num_labels", "id2label", "label2id") if key in set(config)]
    if unused and not _is_stored.get():
        verb = "is" if len(unused) == 1 else "are"
        say(f"config: {' and '.join(unused)} {verb} not used, since the classes of the network are those of the data")


def _modules_of(config_class: type[PretrainedConfig]) -> list[Any]:
    """Returns the Python modules that define a config class, its base network and its classifier."""
    modules = [inspect.getmodule(config_class)]
    for mapping in (transformers.MODEL_MAPPING, transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING):
        if config_class in mapping:
            network: Any = mapping[config_class]
            for each in network if isinstance(network, tuple) else (network,):
                modules.append(inspect.getmodule(each))
    return [module for module in dict.fromkeys(modules) if module is not None]
