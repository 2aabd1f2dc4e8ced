"""Loads transformers networks from folders, the hub or installed packages, or builds them from a config."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import transformers
from transformers import PretrainedConfig, PreTrainedModel

from lightning_xai.functional.model_files.model_folders import resolve_model_path
from lightning_xai.models.pretrained.adapters import adapter_weights, base_folder, find_adapter, merge_adapter
from lightning_xai.models.pretrained.pretrained_weights import WeightGaps, in_encoder, shown, weight_gaps
from lightning_xai.models.pretrained.refusals import first_line_of
from lightning_xai.models.pretrained.transformers_config import has_own_code
from lightning_xai.models.transformer.first_layers import without_left_out_layers


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Within the context, transformers reports only errors. For example, it does not warn that a head starts at random.

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


class LoadedTransformer(NamedTuple):
    """A network from the transformers library, and the names of weights that only it or only its folder has.

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
    """Loads a float32 network with the weights at `path`, or builds one with random weights if `path` is None.

    Returns the network, and the names of weights that only the network or only the folder at `path` has.

    Args:
        auto_class: AutoModel, or an auto class for a task, such as AutoModelForSequenceClassification.
        path: folder, hub id or "package:NAME/FOLDER". An adapter at `path` is merged into its base.
        num_layers: number of layers if `config` keeps only the first layers of the network at `path`; None if it
            keeps all. Weights of the other layers are not reported as unused.
        trust_remote_code: whether Python code in the folder at `path` may run.
        options: further arguments of the network's constructor.

    Raises:
        ValueError: the weights cannot be read or do not match `config`, or weights of the encoder are missing.

    Example:
        >>> from lightning_xai.models.pretrained.transformers_config import read_config
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
            f"{path}: its Python code is not run; transformers' own {config.model_type} is used instead",
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
                remedy = (
                    "correct config.json, so that it describes the trained network"
                    if in_encoder(network, key)
                    else "use data with the classes of the weights; or, for a new head, save the encoder alone "
                    "(AutoModel.from_pretrained(...).save_pretrained(FOLDER), and the tokenizer), and give FOLDER"
                )
                raise ValueError(f"{path}: {key} has shape {list(shape)}, this network needs {list(needed)}: {remedy}")
        unexpected = report["unexpected_keys"]
        if num_layers is not None:
            unexpected = without_left_out_layers(unexpected, network, num_layers)
        gaps = weight_gaps(network, report["missing_keys"] - set(adapted), unexpected)
    missing = [name for name in gaps.fresh if in_encoder(network, name)]
    if missing:
        raise ValueError(
            f"{path}: no weights for {shown(missing)} of the encoder: correct config.json, so that it describes the "
            "trained network"
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
            f"{path}: the weights cannot be loaded ({first_line_of(error)}): download the model again, or "
            "correct config.json, so that it describes the weights"
        ) from error
