"""Finds the modules that make up each layer and the classification head of a Hugging Face network.

Methods that decompose the network need these modules. `EncoderLayer` names the modules of a layer by their roles. The
network itself is not changed.

Modules of transformers have the type Any here, because the names of their parts differ between architectures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer

DECOMPOSABLE = "BERT, RoBERTa, ELECTRA, DistilBERT, BigBird (full attention), DeBERTa-v2 and Llama"


def _part(module: Any, *names: str) -> Any:
    """Returns the part of `module` at the first of the dotted `names` that exists, or None if none exists."""
    for name in names:
        part = module
        for attribute in name.split("."):
            part = getattr(part, attribute, None)
        if part is not None:
            return part
    return None


def _bert_layer(layer: Any, num_heads: int) -> EncoderLayer | None:
    value = _part(layer, "attention.self.value", "attention.self.value_proj")
    if value is None or _part(layer, "attention.output.LayerNorm") is None:
        return None
    return EncoderLayer(
        module=layer,
        value=value,
        output=layer.attention.output.dense,
        attention_norm=layer.attention.output.LayerNorm,
        up=layer.intermediate.dense,
        activation=layer.intermediate.intermediate_act_fn,
        down=layer.output.dense,
        feed_forward_norm=layer.output.LayerNorm,
        num_heads=num_heads,
    )


def _distilbert_layer(layer: Any, num_heads: int) -> EncoderLayer | None:
    if _part(layer, "sa_layer_norm") is None or _part(layer, "attention.v_lin") is None:
        return None
    return EncoderLayer(
        module=layer,
        value=layer.attention.v_lin,
        output=layer.attention.out_lin,
        attention_norm=layer.sa_layer_norm,
        up=layer.ffn.lin1,
        activation=layer.ffn.activation,
        down=layer.ffn.lin2,
        feed_forward_norm=layer.output_layer_norm,
        num_heads=num_heads,
    )


def _llama_layer(layer: Any, num_heads: int) -> EncoderLayer | None:
    parts = ("self_attn.v_proj", "mlp.gate_proj", "input_layernorm", "post_attention_layernorm")
    if any(_part(layer, part) is None for part in parts):
        return None
    return EncoderLayer(
        module=layer,
        value=layer.self_attn.v_proj,
        output=layer.self_attn.o_proj,
        attention_norm=layer.input_layernorm,
        up=layer.mlp.up_proj,
        gate=layer.mlp.gate_proj,
        activation=layer.mlp.act_fn,
        down=layer.mlp.down_proj,
        feed_forward_norm=layer.post_attention_layernorm,
        num_heads=num_heads,
        norm_first=True,
    )


def _layer(module: Any, num_heads: int) -> EncoderLayer | None:
    return _bert_layer(module, num_heads) or _distilbert_layer(module, num_heads) or _llama_layer(module, num_heads)


def encoder_layers(transformer: PreTrainedModel) -> list[EncoderLayer]:
    """Returns the layers of `transformer`, first layer first, with the role of each part.

    Roles are inferred from names; `decomposition.encoder_layer.trace_layers` checks them on a forward pass.

    Raises:
        ValueError: the layers of the architecture do not have a known structure, or the layers have LoRA adapters that
            are not merged, whose weights a decomposition would miss.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> (layer,) = encoder_layers(random_bert().transformer)
        >>> layer.num_heads, layer.value.out_features, layer.norm_first
        (2, 4, False)
    """
    base: Any = transformer.base_model
    num_heads = base.config.num_attention_heads
    modules = _part(base, "encoder.layer", "transformer.layer", "layers") or []
    layers = [layer for module in modules if (layer := _layer(module, num_heads)) is not None]
    if not layers or len(layers) < len(modules):
        raise ValueError(
            f"the structure of {base.config.model_type}'s layers is unknown: decompositions support {DECOMPOSABLE}; "
            "choose a gradient or perturbation method"
        )
    if any(hasattr(part, "lora_A") for layer in layers for part in layer.module.modules()):
        raise ValueError(
            "the network's layers have LoRA adapters, which are merged into the weights for explanations, but not for "
            "a training loss: leave out lora, or choose a gradient method for this loss"
        )
    return layers


def head_layers(transformer: PreTrainedModel) -> list[Callable[[Tensor], Tensor]]:
    """Returns the layers of a sequence classifier's head, in the order in which they are applied.

    Raises:
        ValueError: the head of the architecture does not have a known structure.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> for layer in head_layers(random_bert().transformer):
        ...     print(layer)
        Linear(in_features=4, out_features=4, bias=True)
        Tanh()
        Linear(in_features=4, out_features=2, bias=True)
    """
    network: Any = transformer
    config, base = network.config, network.base_model
    if _part(network, "classifier.dense") is not None and _part(network, "classifier.out_proj") is not None:
        head = network.classifier
        # the activation is a module of the head (ELECTRA), is named in the head's config (BigBird) or is tanh (RoBERTa)
        activation = getattr(head, "activation", None)
        if activation is None:
            activation = ACT2FN[head.config.hidden_act] if config.model_type == "big_bird" else nn.Tanh()
        return [head.dense, activation, head.out_proj]
    if _part(network, "pre_classifier") is not None:
        return [network.pre_classifier, nn.ReLU(), network.classifier]
    if _part(base, "pooler.activation") is not None:
        return [base.pooler.dense, base.pooler.activation, network.classifier]
    if _part(network, "pooler.dense") is not None:
        return [network.pooler.dense, ACT2FN[config.pooler_hidden_act], network.classifier]
    if _part(network, "score") is not None and _part(base, "norm") is not None:
        return [base.norm, network.score]
    raise ValueError(
        f"the structure of {config.model_type}'s head is unknown: decompositions support {DECOMPOSABLE}; "
        "choose a gradient or perturbation method"
    )
