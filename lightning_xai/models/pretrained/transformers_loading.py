"""Networks and configs of transformers, from folders, the hub, installed packages, or a dictionary."""

from __future__ import annotations

import errno
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel

from lightning_xai.functional.model_files.model_folders import resolve_model_path
from lightning_xai.models.pretrained.adapters import (
    adapter_weights,
    base_folder,
    find_adapter,
    merge_adapter,
    trained_head_size,
)
from lightning_xai.models.pretrained.config_keys import check_class_ids, check_config_keys, say_unused_keys
from lightning_xai.models.pretrained.pretrained_weights import WeightGaps, in_encoder, some, weight_gaps
from lightning_xai.models.transformer.first_layers import keep_first_layers, without_left_out_layers

# facts about a file or a run, not about the architecture
_NOT_ARCHITECTURE = {
    "_name_or_path", "architectures", "auto_map", "dtype", "id2label", "label2id", "num_labels", "output_attentions",
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
        num_layers: number of first layers that the network keeps; None keeps all.
        trust_remote_code: whether Python code in the folder at `path` may run.

    Raises:
        ValueError: both or none of `path` and `config` are given, the config cannot be loaded, `config` has a key that
            the architecture does not read, `dropout` is no probability, or the network has fewer than `num_layers`
            layers.

    Example:
        >>> read_config(None, {"model_type": "bert", "vocab_size": 20}, dropout=None).vocab_size
        20
    """
    if dropout is not None and not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}: give a probability from 0 to below 1")
    if path is not None and config is None:
        settings = _config_at(path, trust_remote_code=trust_remote_code)
    elif config is not None and path is None:
        settings = _config_of(config)
    else:
        raise ValueError(f"path is {path!r} and config is {config!r}: give exactly one of them")
    if getattr(settings, "attention_type", None) == "block_sparse":
        # a block_sparse network switches to original_full for good at its first short batch, which changes later logits
        settings.attention_type = "original_full"
    if settings._attn_implementation not in (None, "eager", "sdpa"):
        settings._attn_implementation = None  # a kernel name would make transformers download code
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
        raise ValueError(f"config has model_type {model_type!r}: name an architecture of transformers, such as 'bert'")
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
                f"{path}: config.json cannot be read ({_first_line(error)}): correct it, or download it again"
            ) from error
        raise ValueError(
            f"{shortened_path(path)}: neither a folder with a config.json nor a model on the Hugging Face hub; "
            "package:NAME/FOLDER names a folder of an installed package (transformers says: "
            f"{_first_line(error)[:100]})"
        ) from error
    except ValueError as error:
        if "trust_remote_code" in str(error):
            raise ValueError(
                f"{path}: needs Python code of its own folder, which is not run: give trust_remote_code: true if you "
                "trust the code"
            ) from error
        reason = _first_line(error)
        raise ValueError(reason if path in reason else f"{path}: {reason}; correct config.json") from error
    # transformers checks no types, so wrong values in config.json raise errors of many types
    except Exception as error:
        raise ValueError(
            f"{path}: config.json has a value that transformers refuses ({_first_line(error)}): correct it, or "
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
        ValueError: models/bert has quantized weights (gptq), which have no gradients: give the model ...
    """
    settings = getattr(config, "quantization_config", None)
    if settings:
        method = settings.get("quant_method") if isinstance(settings, dict) else None
        raise ValueError(
            f"{path} has quantized weights ({method or 'see quantization_config'}), which have no gradients: give the "
            "model in float32 or bfloat16 from which it was made"
        )


def shortened_path(path: str) -> str:
    """Returns a path for a message, cut after 100 characters.

    Example:
        >>> shortened_path("models/bert")
        'models/bert'
    """
    return path if len(path) <= 100 else f"{path[:97]}..."


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    if "weights_only" in text:  # torch advises to run the code
        return "they are damaged or hold pickled code, which is not run"
    name = type(error).__name__
    return (f"{name} {text}" if isinstance(error, KeyError) else text.splitlines()[0]) if text else name


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


def has_own_code(config: PretrainedConfig, auto_class: Any) -> bool:
    """Returns whether the folder of a config contains Python code for the network that `auto_class` loads.

    Example:
        >>> has_own_code(transformers.BertConfig(), transformers.AutoModel)
        False
    """
    return auto_class.__name__ in (getattr(config, "auto_map", None) or {})


class LoadedTransformer(NamedTuple):
    """A network of transformers, and the gaps between its weights and the weights in its folder.

    Example:
        >>> LoadedTransformer(transformers.BertModel(transformers.BertConfig(num_hidden_layers=0))).gaps.fresh
        ()
    """

    network: PreTrainedModel
    gaps: WeightGaps = WeightGaps()


def load_transformer(
    auto_class: Any,
    path: str | None,
    config: PretrainedConfig,
    *,
    num_layers: int | None = None,
    trust_remote_code: bool = False,
    **options: Any,
) -> LoadedTransformer:
    """Returns a float32 network with the weights at `path`, or with random weights if `path` is None.

    Args:
        auto_class: AutoModel, or an auto class for a task, such as AutoModelForSequenceClassification.
        path: folder, hub id or "package:NAME/FOLDER". An adapter at `path` is merged into its base.
        num_layers: number of first layers that `config` keeps of the network at `path`; None if it keeps all. The
            weights of the other layers are no gaps.
        trust_remote_code: whether Python code in the folder at `path` may run.
        options: further arguments of the network's constructor.

    Raises:
        ValueError: the weights cannot be read or do not fit `config`, or weights of the encoder are missing.

    Example:
        >>> sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
        >>> config = read_config(None, {"model_type": "bert", "vocab_size": 20} | sizes, dropout=None)
        >>> load_transformer(transformers.AutoModel, None, config).network.get_input_embeddings().weight.shape
        torch.Size([20, 4])
    """
    options["trust_remote_code"] = trust_remote_code
    if path is None:
        return LoadedTransformer(auto_class.from_config(config, dtype=torch.float32, **options))
    if has_own_code(config, auto_class) and not trust_remote_code:
        warnings.warn(
            f"{path}: brings Python code for this network, which is not run: transformers' {config.model_type} is used",
            stacklevel=2,
        )
    adapter = find_adapter(resolve_model_path(path))
    adapted = {} if adapter is None else adapter_weights(adapter)
    with quiet_loading():
        if adapter is None:
            network, report = _read_network(auto_class, path, config, options)
        else:
            with base_folder(adapter) as base:
                network, report = _read_network(auto_class, base, config, options)
            network = merge_adapter(network, adapter)
        for key, shape, needed in sorted(report["mismatched_keys"]):
            if key not in adapted:
                raise ValueError(
                    f"{path}: {key} has shape {list(shape)}, this network needs {list(needed)}: give the number of "
                    "classes on which the weights were trained, or a folder with only the encoder"
                )
        unexpected = report["unexpected_keys"]
        if num_layers is not None:
            unexpected = without_left_out_layers(unexpected, network, num_layers)
        gaps = weight_gaps(network, report["missing_keys"] - set(adapted), unexpected)
    missing = [name for name in gaps.fresh if in_encoder(network, name)]
    if missing:
        raise ValueError(
            f"{path}: no weights for {some(missing)} of the encoder: let config.json describe the network that was "
            "trained"
        )
    return LoadedTransformer(network, gaps)


def _read_network(
    auto_class: Any, path: str, config: PretrainedConfig, options: dict[str, Any]
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Returns the network at `path`, and a report about missing, unexpected and mismatched weights."""
    try:
        return auto_class.from_pretrained(
            resolve_model_path(path), config=config, dtype=torch.float32, ignore_mismatched_sizes=True,
            output_loading_info=True, weights_only=True, **options,
        )  # fmt: skip
    # safetensors, torch and transformers raise errors of many types for files that they cannot read
    except Exception as error:
        raise ValueError(
            f"{path}: the weights cannot be loaded ({_first_line(error)}): download the model again, or let "
            "config.json describe the weights"
        ) from error
