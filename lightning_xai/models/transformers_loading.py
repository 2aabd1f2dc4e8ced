"""Networks and configs of transformers, from folders, the hub, installed packages, or a dictionary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel

from lightning_xai.functional.model_folders import resolve_model_path

# facts about a file or a run, not about the architecture
_NOT_ARCHITECTURE = {
    "_name_or_path", "architectures", "dtype", "id2label", "label2id", "num_labels", "output_attentions",
    "output_hidden_states", "problem_type", "return_dict", "torch_dtype", "transformers_version",
}  # fmt: skip


def architecture_config(config: PretrainedConfig) -> dict[str, Any]:
    """Returns a config as primitives with "model_type", enough to build the same architecture again.

    Example:
        >>> config = read_config(None, {"model_type": "bert", "vocab_size": 20}, dropout=0.3)
        >>> values = architecture_config(config)
        >>> values["model_type"], values["vocab_size"], values["hidden_dropout_prob"]
        ('bert', 20, 0.3)
    """
    values = json.loads(config.to_json_string(use_diff=False))
    return {"model_type": config.model_type} | {k: v for k, v in values.items() if k not in _NOT_ARCHITECTURE}


def read_config(path: str | None, config: dict[str, Any] | None, *, dropout: float | None) -> PretrainedConfig:
    """Returns a Hugging Face config, read from a folder or the hub, or built from a dictionary with "model_type".

    Args:
        path: folder, hub id or "package:NAME/FOLDER"; None if `config` is given.
        config: the dictionary; None if `path` is given.
        dropout: replaces every dropout probability of the config; None keeps them.

    Raises:
        ValueError: neither or both of `path` and `config` are given, nothing can be loaded from them, or `dropout` is
            no probability.

    Example:
        >>> read_config(None, {"model_type": "bert", "vocab_size": 20}, dropout=None).vocab_size
        20
    """
    if dropout is not None and not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}: give a probability from 0 to below 1")
    if path is not None and config is None:
        settings = _config_at(path)
    elif config is not None and path is None:
        settings = _config_of(config)
    else:
        raise ValueError(f"path is {path!r} and config is {config!r}: give exactly one of them")
    if getattr(settings, "attention_type", None) == "block_sparse":
        # otherwise a short batch would switch the network to original_full permanently, which changes logits
        settings.attention_type = "original_full"
    if dropout is not None:
        for name, value in settings.to_dict().items():
            if "dropout" in name and isinstance(value, (int, float)) and not isinstance(value, bool):
                setattr(settings, name, dropout)
    return settings


def _config_of(config: dict[str, Any]) -> PretrainedConfig:
    settings = {key: value for key, value in config.items() if key not in _NOT_ARCHITECTURE}
    model_type = settings.pop("model_type", None)
    if model_type not in transformers.CONFIG_MAPPING:
        raise ValueError(f"config has model_type {model_type!r}: name an architecture of transformers, such as 'bert'")
    return AutoConfig.for_model(model_type, **settings)


def _config_at(path: str) -> PretrainedConfig:
    try:
        return AutoConfig.from_pretrained(resolve_model_path(path))
    except OSError as error:
        raise ValueError(
            f"{path}: neither a folder with a config.json nor a model on the Hugging Face hub; "
            "package:NAME/FOLDER names a folder of an installed package (transformers says: "
            f"{str(error).strip().splitlines()[0]})"
        ) from error


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Within the context, transformers reports errors only. It does not report heads that start at random.

    Example:
        >>> with quiet_loading():
        ...     transformers.logging.get_verbosity() == transformers.logging.ERROR
        True
    """
    level, progress = transformers.logging.get_verbosity(), transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)
        if progress:
            transformers.logging.enable_progress_bar()


def load_transformer(auto_class: Any, path: str | None, config: PretrainedConfig, **options: Any) -> PreTrainedModel:
    """Returns a float32 network with the weights at `path`, or with random weights if `path` is None.

    Args:
        auto_class: AutoModel, or an auto class for a task, such as AutoModelForSequenceClassification.
        path: folder, hub id or "package:NAME/FOLDER".
        options: further arguments of the network's constructor.

    Raises:
        ValueError: the weights do not fit `config`, or weights of the encoder are missing.

    Example:
        >>> sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
        >>> config = read_config(None, {"model_type": "bert", "vocab_size": 20} | sizes, dropout=None)
        >>> load_transformer(transformers.AutoModel, None, config).get_input_embeddings().weight.shape
        torch.Size([20, 4])
    """
    if path is None:
        return auto_class.from_config(config, dtype=torch.float32, **options)
    with quiet_loading():
        network, report = auto_class.from_pretrained(
            resolve_model_path(path), config=config, dtype=torch.float32, ignore_mismatched_sizes=True,
            output_loading_info=True, **options,
        )  # fmt: skip
    for key, shape, needed in sorted(report["mismatched_keys"]):
        raise ValueError(
            f"{path}: {key} has shape {list(shape)}, this network needs {list(needed)}: give the number of classes "
            "on which the weights were trained, or a folder with only the encoder"
        )
    prefix = f"{network.base_model_prefix}." if network.base_model is not network else ""
    missing = sorted(key for key in report["missing_keys"] if key.startswith(prefix) and "pooler" not in key)
    if missing:
        raise ValueError(f"{path}: no weights for {missing[0]} and {len(missing) - 1} others")
    return network
