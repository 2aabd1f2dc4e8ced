"""Reads transformers configs from folders, the hub or installed packages, or builds them from a dictionary."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import transformers
from transformers import AutoConfig, PretrainedConfig

from lightning_xai.functional.model_files.class_ids import check_class_ids
from lightning_xai.functional.model_files.model_folders import resolve_model_path
from lightning_xai.models.pretrained.adapters import adapter_weights, find_adapter, trained_head_size
from lightning_xai.models.pretrained.config_keys import check_config_keys, say_unused_keys
from lightning_xai.models.pretrained.refusals import first_line_of
from lightning_xai.models.transformer.first_layers import keep_first_layers

# keys that describe a file or a run, not the architecture
_NOT_ARCHITECTURE = {
    "_name_or_path", "architectures", "auto_map", "dtype", "id2label", "label2id", "num_labels", "output_attentions",
    "output_hidden_states", "problem_type", "return_dict", "torch_dtype", "transformers_version",
}  # fmt: skip


def architecture_config(config: PretrainedConfig) -> dict[str, Any]:
    """Returns a config as a dictionary of primitives that suffices to build the same architecture again.

    Example:
        >>> config = read_config(None, {"model_type": "bert", "vocab_size": 20}, dropout=0.3)
        >>> values = architecture_config(config)
        >>> values["model_type"], values["vocab_size"], values["hidden_dropout_prob"]
        ('bert', 20, 0.3)
    """
    values = json.loads(config.to_json_string(use_diff=False))
    return {"model_type": config.model_type} | {k: v for k, v in values.items() if k not in _NOT_ARCHITECTURE}


def read_config(
    path: str | None,
    config: dict[str, Any] | None,
    *,
    dropout: float | None,
    num_layers: int | None = None,
    trust_remote_code: bool = False,
) -> PretrainedConfig:
    """Returns a Hugging Face config, read from a folder or the hub, or built from a dictionary with "model_type".

    Args:
        path: folder, hub id or "package:NAME/FOLDER"; None if `config` is given.
        config: the dictionary; None if `path` is given.
        dropout: replaces every dropout probability of the config; None keeps them.
        num_layers: number of layers to keep, counted from the first; None keeps all.
        trust_remote_code: whether Python code in the folder at `path` may run.

    Raises:
        ValueError: both or neither of `path` and `config` are given, the config cannot be loaded, the model at `path`
            is quantized, a key of `config` is unknown to the architecture, `dropout` is not in [0, 1), or there are
            fewer than `num_layers` layers.

    Example:
        >>> read_config(None, {"model_type": "bert", "vocab_size": 20}, dropout=None).vocab_size
        20
    """
    if dropout is not None and not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}: give a probability of at least 0 and below 1")
    if path is not None and config is None:
        settings = _config_at(path, trust_remote_code=trust_remote_code)
    elif config is not None and path is None:
        settings = _config_of(config)
    else:
        raise ValueError(f"path is {path!r} and config is {config!r}: give exactly one of them")
    if getattr(settings, "attention_type", None) == "block_sparse":
        # BigBird with block_sparse attention switches to original_full at the first short batch, so its logits change
        settings.attention_type = "original_full"
    if settings._attn_implementation not in (None, "eager", "sdpa"):
        settings._attn_implementation = None  # otherwise, transformers would download a kernel's code from the hub
    if dropout is not None:
        for name, value in settings.to_dict().items():
            if "dropout" in name and isinstance(value, (int, float)) and not isinstance(value, bool):
                setattr(settings, name, dropout)
    if num_layers is not None:
        keep_first_layers(settings, num_layers)
    return settings


def _config_of(config: dict[str, Any]) -> PretrainedConfig:
    settings = {key: value for key, value in config.items() if key not in _NOT_ARCHITECTURE}
    model_type = settings.pop("model_type", None)
    if model_type not in transformers.CONFIG_MAPPING:
        raise ValueError(f"config has model_type {model_type!r}: give an architecture of transformers, such as 'bert'")
    say_unused_keys(config)
    check_config_keys(transformers.CONFIG_MAPPING[model_type], settings)
    return AutoConfig.for_model(model_type, **settings)


def _config_at(path: str, *, trust_remote_code: bool) -> PretrainedConfig:
    try:
        adapter = find_adapter(resolve_model_path(path))
        source = resolve_model_path(path) if adapter is None or adapter.beside_base else adapter.base
        source = resolve_model_path(source)
        check_class_ids(Path(source, "config.json"), path)
        settings = AutoConfig.from_pretrained(source, trust_remote_code=trust_remote_code)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise
        if (Path(resolve_model_path(path)) / "config.json").is_file():
            raise ValueError(
                f"{path}: config.json cannot be read ({first_line_of(error)}): correct it, or download it again"
            ) from error
        raise ValueError(
            f"{shortened_path(path)}: neither a folder with a config.json nor a model on the Hugging Face hub; for a "
            "folder of an installed package, give package:NAME/FOLDER (transformers says: "
            f"{first_line_of(error)[:100]})"
        ) from error
    except ValueError as error:
        if "trust_remote_code" in str(error):
            raise ValueError(
                f"{path}: needs Python code from its folder, which is not run: set `trust_remote_code: true` if you "
                "trust the code"
            ) from error
        reason = first_line_of(error)
        raise ValueError(reason if path in reason else f"{path}: {reason}; correct config.json") from error
    # transformers does not check types, so wrong values in config.json raise errors of many types
    except Exception as error:
        raise ValueError(
            f"{path}: config.json has a value that transformers refuses ({first_line_of(error)}): correct it, or "
            "download it again"
        ) from error
    refuse_quantized(settings, path)
    size = None if adapter is None else trained_head_size(adapter_weights(adapter))
    if size is not None:
        settings.num_labels = size
    return settings


def refuse_quantized(config: PretrainedConfig, path: str) -> None:
    """Raises ValueError if the weights of a model are quantized, since quantized layers have no gradients.

    Example:
        >>> refuse_quantized(transformers.BertConfig(), "models/bert")
        >>> config = transformers.BertConfig(quantization_config={"quant_method": "gptq"})
        >>> refuse_quantized(config, "models/bert")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: models/bert has quantized weights (gptq), which have no gradients: give the float32 ...
    """
    settings = getattr(config, "quantization_config", None)
    if settings:
        method = settings.get("quant_method") if isinstance(settings, dict) else None
        raise ValueError(
            f"{path} has quantized weights ({method or 'see quantization_config'}), which have no gradients: give the "
            "float32 or bfloat16 model from before the quantization"
        )


def shortened_path(path: str) -> str:
    """Returns a path for a message, shortened to at most 100 characters.

    Example:
        >>> shortened_path("models/bert")
        'models/bert'
    """
    return path if len(path) <= 100 else f"{path[:97]}..."


def has_own_code(config: PretrainedConfig, auto_class: Any) -> bool:
    """Returns whether a config says that Python code in its folder defines the network that `auto_class` loads.

    Example:
        >>> has_own_code(transformers.BertConfig(), transformers.AutoModel)
        False
    """
    return auto_class.__name__ in (getattr(config, "auto_map", None) or {})
