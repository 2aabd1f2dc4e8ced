"""Adds LoRA adapters from the package peft to a pretrained network (the base), and merges them for explanations."""

from __future__ import annotations

import copy
import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from lightning_xai.models.pretrained.weight_files import hash_of_files, weight_files


class LoraOptions(TypedDict, total=False):
    """Options of LoRA adapters. Missing options have the values in DEFAULTS."""

    rank: int  # rank of the trained matrices
    alpha: float  # the output of adapters is multiplied by alpha / rank
    dropout: float
    targets: list[str] | None  # names of the layers to adapt, such as q_proj; None lets peft choose by architecture
    base: str  # hash of the base model's weights; only checkpoints set this option


DEFAULTS: dict[str, Any] = {"rank": 8, "alpha": 16.0, "dropout": 0.0, "targets": None}


def check_lora(options: Mapping[str, Any], path: str | None, *, pretrained: bool) -> None:
    """Checks the options of adapters before the network is loaded.

    Args:
        options: the options, see `LoraOptions`.
        path: path of the base model.
        pretrained: whether the weights at `path` are loaded. If False, the network has random weights.

    Raises:
        ValueError: an option is unknown or out of range, the base has random weights or differs from the base that a
            checkpoint names, or peft is missing.

    Example:
        >>> check_lora({"rnak": 8}, "models/bert", pretrained=True)
        Traceback (most recent call last):
        ValueError: lora has an unknown option 'rnak': choose from rank, alpha, dropout, targets
    """
    for name in options:
        if name not in (*DEFAULTS, "base"):
            raise ValueError(f"lora has an unknown option {name!r}: choose from {', '.join(DEFAULTS)}")
    rank, dropout = options.get("rank", 8), options.get("dropout", 0.0)
    if rank < 1 or not 0 <= dropout < 1:
        raise ValueError(f"lora has rank {rank} and dropout {dropout}: give a rank of at least 1, and 0 <= dropout < 1")
    if path is None or not pretrained:
        raise ValueError(
            "lora adapts pretrained weights, but the network's weights are random: set the network's path, and leave "
            "`pretrained` true"
        )
    if importlib.util.find_spec("peft") is None:
        raise ValueError("lora needs the package peft: pip install 'lightning_xai[lora]'")
    if "base" in options and (hash_now := hash_of_files(weight_files(path))) != options["base"]:
        raise ValueError(
            f"the weights at {path} have the hash {hash_now}, but the adapters were trained on weights with the hash "
            f"{options['base']}: restore these weights"
        )


def add_adapters(network: Any, options: Mapping[str, Any]) -> None:
    """Adds adapters to a network. Only the adapters and the head are then trained and stored in the state dict.

    Args:
        network: a HuggingFaceClassifier with pretrained weights.
        options: options that `check_lora` has checked.

    Raises:
        ValueError: the network has no layers with the names in `targets`.
    """
    peft: Any = importlib.import_module("peft")
    chosen = DEFAULTS | dict(options)
    head = network.head_parameters()
    config = peft.LoraConfig(
        r=chosen["rank"], lora_alpha=chosen["alpha"], lora_dropout=chosen["dropout"], target_modules=chosen["targets"]
    )
    try:
        peft.inject_adapter_in_model(config, network.transformer)
    except ValueError as error:
        raise ValueError(f"lora does not fit the network ({str(error).splitlines()[0]}): change targets") from error
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_("lora_" in name)
    for parameter in head:
        parameter.requires_grad_(True)
    network.base_hash = hash_of_files(weight_files(network.init_args["path"]))
    network.base_names = frozenset(name for name, weight in network.named_parameters() if not weight.requires_grad)
    network.adapter_handles = [
        network.register_state_dict_post_hook(_leave_base_out),
        network.register_load_state_dict_pre_hook(_take_base_from_network),
    ]


def merge_adapters(network: Any) -> None:
    """Merges a network's adapters into its weights, and removes the adapters from the network.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> merge_adapters(random_bert())  # a network without adapters stays as it is
    """
    if not getattr(network, "base_names", None):
        return
    for parent, name, module in _adapted_layers(network):
        module.merge()
        setattr(parent, name, module.get_base_layer())
    for handle in network.adapter_handles:
        handle.remove()
    network.base_names, network.adapter_handles = frozenset(), []
    for parameter in network.parameters():
        parameter.requires_grad_(True)


@contextmanager
def merged_adapters(network: nn.Module) -> Iterator[None]:
    """Within the context, every layer with adapters is replaced by an ordinary layer with the merged weights.

    Attribution methods that read a layer's weights would otherwise miss the adapters. Afterwards, the network is as
    before, so its training can go on.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> with merged_adapters(random_bert()):  # a network without adapters stays as it is
        ...     pass
    """
    adapted = _adapted_layers(network)
    try:
        for parent, name, layer in adapted:
            setattr(parent, name, _merged_layer(layer))
        if adapted:
            _forget_prompts(network)
        yield
    finally:
        for parent, name, layer in adapted:
            setattr(parent, name, layer)
        if adapted:
            _forget_prompts(network)


def _forget_prompts(network: nn.Module) -> None:
    """Drops the keys and values that parts of the network have stored for prompts.

    A cache recognizes weights by their memory addresses and by how often they were changed in place. Merged weights may
    agree in both with earlier weights that were freed, and then the cache would not notice the change.
    """
    for part in network.modules():
        forget: Any = getattr(part, "forget_prompt", None)
        if forget is not None:
            forget()


def _adapted_layers(network: nn.Module) -> list[tuple[nn.Module, str, Any]]:
    """Returns (parent module, name in the parent, layer) for every layer with adapters."""
    adapted = [(name, part) for name, part in network.named_modules() if hasattr(part, "get_delta_weight")]
    places = [(name.rpartition("."), part) for name, part in adapted]
    return [(network.get_submodule(parent), last, part) for (parent, _, last), part in places]


@torch.no_grad()
def _merged_layer(layer: Any) -> Any:
    """Returns an ordinary layer with the merged weights of a layer with adapters."""
    base = layer.get_base_layer()
    weight = base.weight.clone()
    for adapter in layer.active_adapters:
        weight += layer.get_delta_weight(adapter).to(weight.dtype)
    merged = copy.copy(base)
    merged._parameters = base._parameters | {"weight": nn.Parameter(weight, requires_grad=False)}
    return merged


def _leave_base_out(network: Any, state: dict[str, Tensor], prefix: str, metadata: Any) -> None:
    for name in network.base_names:
        state.pop(prefix + name, None)


@torch.no_grad()
def _take_base_from_network(network: nn.Module, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    parameters = dict(network.named_parameters(remove_duplicate=False))
    for name in getattr(network, "base_names", ()):
        state.setdefault(prefix + name, parameters[name])
