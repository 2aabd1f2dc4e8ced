"""Finds the roles of a Hugging Face network's layers and head, so that decompositions need no modeling fork."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer

DECOMPOSABLE = "BERT, RoBERTa, ELECTRA, DistilBERT, BigBird (full attention), DeBERTa-v2 and Llama"


def _first(module: nn.Module, *names: str) -> nn.Module | None:
    """Returns the first part of `module` that has one of the dotted names, None if it has none of them."""
    for name in names:
        found = module
        for step in name.split("."):
            found = getattr(found, step, None)
        if found is not None:
            return found
    return None


def _bert_layer(layer: nn.Module, num_heads: int) -> EncoderLayer | None:
    value = _first(layer, "attention.self.value", "attention.self.value_proj")
    if value is None or _first(layer, "attention.output.LayerNorm") is None:
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


def _distilbert_layer(layer: nn.Module, num_heads: int) -> EncoderLayer | None:
    if _first(layer, "sa_layer_norm") is None or _first(layer, "attention.v_lin") is None:
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


def _llama_layer(layer: nn.Module, num_heads: int) -> EncoderLayer | None:
    parts = ("self_attn.v_proj", "mlp.gate_proj", "input_layernorm", "post_attention_layernorm")
    if any(_first(layer, part) is None for part in parts):
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


def encoder_layers(transformer: PreTrainedModel) -> list[EncoderLayer]:
    """Returns the roles of the layers of `transformer`, first layer first.

    Names are all that is looked at; `functional.encoder_layer.trace_layers` checks them against a forward pass.

    Raises:
        ValueError: the architecture has no layers of a known form.
    """
    base = transformer.base_model
    stack = _first(base, "encoder.layer", "transformer.layer", "layers")
    heads = base.config.num_attention_heads
    found = [_bert_layer(layer, heads) or _distilbert_layer(layer, heads) or _llama_layer(layer, heads)
             for layer in stack or []]  # fmt: skip
    if not found or None in found:
        raise ValueError(
            f"the layers of {base.config.model_type} have no known roles: decompositions are for {DECOMPOSABLE}; "
            "choose a gradient or perturbation method"
        )
    return found


def head_layers(transformer: PreTrainedModel) -> list[Callable[[Tensor], Tensor]]:
    """Returns what a sequence classifier of transformers applies, in this order, to the state that it reads.

    Raises:
        ValueError: the architecture has no head of a known form.
    """
    config, base = transformer.config, transformer.base_model
    if _first(transformer, "classifier.dense") is not None and _first(transformer, "classifier.out_proj") is not None:
        head = transformer.classifier
        # BigBird applies its encoder's activation by name, ELECTRA keeps a module, RoBERTa writes tanh
        activation = getattr(head, "activation", None)
        if activation is None:
            activation = ACT2FN[config.hidden_act] if config.model_type == "big_bird" else nn.Tanh()
        return [head.dense, activation, head.out_proj]
    if _first(transformer, "pre_classifier") is not None:
        return [transformer.pre_classifier, nn.ReLU(), transformer.classifier]
    if _first(base, "pooler.activation") is not None:
        return [base.pooler.dense, base.pooler.activation, transformer.classifier]
    if _first(transformer, "pooler.dense") is not None:
        return [transformer.pooler.dense, ACT2FN[config.pooler_hidden_act], transformer.classifier]
    if _first(transformer, "score") is not None and _first(base, "norm") is not None:
        return [base.norm, transformer.score]
    raise ValueError(
        f"the head of {config.model_type} is of no known form: decompositions are for {DECOMPOSABLE}; "
        "choose a gradient or perturbation method"
    )
