"""What classifiers on a Hugging Face network share: loading, embeddings that can be replaced, attention kernels."""

from __future__ import annotations

import inspect
import json
from contextlib import contextmanager
from typing import Any, Literal

import torch
import transformers
from torch import Tensor, nn
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel

from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer
from lightning_xai.functional.modes import call_with_known_arguments
from lightning_xai.functional.padding import position_ids
from lightning_xai.functional.paths import resolve_model_path
from lightning_xai.models.base import Classifier
from lightning_xai.models.contracts import contract_violations
from lightning_xai.models.encoder_layers import encoder_layers
from lightning_xai.types import TextInputs

# facts about a file or a run, not about the architecture
_NOT_ARCHITECTURE = {
    "_name_or_path", "architectures", "dtype", "id2label", "label2id", "num_labels", "output_attentions",
    "output_hidden_states", "problem_type", "return_dict", "torch_dtype", "transformers_version",
}  # fmt: skip


def architecture_config(config: PretrainedConfig) -> dict[str, Any]:
    """Returns `config` as primitives with "model_type", enough to build the same architecture again."""
    values = json.loads(config.to_json_string(use_diff=False))
    return {"model_type": config.model_type} | {k: v for k, v in values.items() if k not in _NOT_ARCHITECTURE}


def read_config(path: str | None, config: dict | None, *, dropout: float | None) -> PretrainedConfig:
    """Returns the Hugging Face config in a folder or on the hub, or built from a dictionary with "model_type".

    Args:
        dropout: replaces every dropout probability of the config; None keeps them.

    Raises:
        ValueError: none or both of `path` and `config` are given, or they name nothing that can be loaded.
    """
    if (path is None) == (config is None):
        raise ValueError(f"path is {path!r} and config is {config!r}: give exactly one of them")
    if dropout is not None and not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}: give a probability from 0 to below 1")
    if config is not None:
        config = {key: value for key, value in config.items() if key not in _NOT_ARCHITECTURE}
        model_type = config.pop("model_type", None)
        if model_type not in transformers.CONFIG_MAPPING:
            raise ValueError(f"config has model_type {model_type!r}: name an architecture of transformers, as 'bert'")
        found = AutoConfig.for_model(model_type, **config)
    else:
        try:
            found = AutoConfig.from_pretrained(resolve_model_path(path))
        except OSError as error:
            raise ValueError(
                f"{path}: neither a folder with a config.json nor a model that the Hugging Face hub gives; "
                "package:NAME/FOLDER names a folder of an installed package (transformers says: "
                f"{str(error).strip().splitlines()[0]})"
            ) from error
    if getattr(found, "attention_type", None) == "block_sparse":
        # block_sparse turns itself into original_full for good at the first short batch, and logits change
        found.attention_type = "original_full"
    for name, value in found.to_dict().items():
        if (
            dropout is not None
            and "dropout" in name
            and isinstance(value, (int, float))
            and not isinstance(value, bool)
        ):
            setattr(found, name, dropout)
    return found


@contextmanager
def quiet_loading():
    """Within the context transformers reports errors only: a fresh head is no news."""
    level, progress = transformers.logging.get_verbosity(), transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)
        if progress:
            transformers.logging.enable_progress_bar()


def load_transformer(auto_class: type, path: str | None, config: PretrainedConfig, **options) -> PreTrainedModel:
    """Returns a float32 network: the weights at `path`, or random ones if it is None.

    Raises:
        ValueError: the weights do not fit `config`, or the encoder's are not among them.
    """
    if path is None:
        return auto_class.from_config(config, dtype=torch.float32, **options)
    with quiet_loading():
        network, report = auto_class.from_pretrained(
            resolve_model_path(path), config=config, dtype=torch.float32, ignore_mismatched_sizes=True,
            output_loading_info=True, **options,
        )  # fmt: skip
    for key, found, wanted in sorted(report["mismatched_keys"]):
        raise ValueError(
            f"{path}: {key} has shape {list(found)}, this network needs {list(wanted)}: give the number of classes "
            "that it was trained on, or a folder with the encoder alone"
        )
    prefix = f"{network.base_model_prefix}." if network.base_model is not network else ""
    encoder_keys = [key for key in report["missing_keys"] if key.startswith(prefix) and "pooler" not in key]
    if encoder_keys:
        raise ValueError(f"{path}: no weights for {sorted(encoder_keys)[0]} and {len(encoder_keys) - 1} others")
    return network


class HuggingFaceClassifier(Classifier):
    """A classifier whose `transformer` is a Hugging Face network.

    Given embeddings never change what else the network sees: it always gets the real input ids, and while
    `inputs_embeds` are given a forward hook replaces the output of the embedding module.

    Args:
        transformer: network with or without a classification head.
        embedding: "word" is the word embedding table (the network then adds positions and types and normalizes),
            "module" is the whole embedding module, its LayerNorm and dropout included.
    """

    segment_length: int | None = None  # positions start again in every segment

    def __init__(self, transformer: PreTrainedModel, embedding: Literal["word", "module"]) -> None:
        super().__init__()
        if embedding not in ("word", "module"):
            raise ValueError(f"embedding is {embedding!r}: give 'word' or 'module'")
        self.embedding = embedding
        self.transformer = transformer
        config = transformer.config
        self._fastest = "eager" if config._attn_implementation == "eager" else "sdpa"
        self.set_attention("sdpa")
        embeddings = getattr(transformer.base_model, "embeddings", None)
        if embedding == "module" and embeddings is None:
            raise ValueError(f"{config.model_type} has no embedding module: give embedding='word'")
        table = getattr(embeddings, "position_embeddings", None)
        table = table if isinstance(table, nn.Embedding) else None
        padding = table.padding_idx if table is not None else None
        self.position_offset = 0 if padding is None else padding + 1  # RoBERTa counts from padding_idx + 1
        size = getattr(config, "max_position_embeddings", None) if table is None else table.num_embeddings
        self.max_length: int | None = size - self.position_offset if size and size > 0 else None
        self.pad_id: int = config.pad_token_id if config.pad_token_id is not None else 0
        names = [name for name in config.to_dict() if name.endswith("_token_id")]
        ids = {getattr(config, name) for name in names} | {self.pad_id}
        vocabulary = range(self.embedding_matrix.shape[0])
        self.special_ids: list[int] = sorted(i for i in ids if isinstance(i, int) and i in vocabulary)
        self.accepted = frozenset(inspect.signature(transformer.forward).parameters)

    @property
    def embedding_module(self) -> nn.Module:
        base = self.transformer.base_model
        return base.embeddings if self.embedding == "module" else base.get_input_embeddings()

    def head_parameters(self) -> list[nn.Parameter]:
        encoder = {id(parameter) for parameter in self.transformer.base_model.parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in encoder]

    @property
    def embedding_matrix(self) -> nn.Parameter:
        return self.transformer.get_input_embeddings().weight

    def encoder_layers(self) -> list[EncoderLayer]:
        return encoder_layers(self.transformer)

    @property
    def attention_implementation(self) -> str:
        return self.transformer.config._attn_implementation

    def set_attention(self, implementation: Literal["eager", "sdpa"]) -> None:
        """Chooses the attention kernel; an architecture without an sdpa kernel keeps its eager one."""
        if implementation not in ("eager", "sdpa"):
            raise ValueError(f"attention implementation is {implementation!r}: give 'eager' or 'sdpa'")
        wanted = self._fastest if implementation == "sdpa" else "eager"
        if wanted != self.attention_implementation:
            self.transformer.set_attn_implementation(wanted)

    def embed(self, inputs: TextInputs) -> Tensor:
        arguments = self.network_inputs(inputs)
        ids = arguments.pop("input_ids")
        if self.embedding == "word":
            return self.embedding_module(ids)
        return call_with_known_arguments(self.embedding_module, input_ids=ids, mask=inputs.attention_mask, **arguments)

    def network_inputs(self, inputs: TextInputs) -> dict[str, Tensor | None]:
        """Returns ids [B, T] with the pad id at padding, types if the network has any, and positions by mask."""
        types = inputs.token_type_ids if getattr(self.transformer.config, "type_vocab_size", 0) > 1 else None
        return {
            "input_ids": inputs.input_ids.masked_fill(~inputs.attention_mask, self.pad_id),
            "token_type_ids": None if types is None else types.masked_fill(~inputs.attention_mask, 0),
            "position_ids": position_ids(
                inputs.attention_mask, offset=self.position_offset, segment_length=self.segment_length
            ),
        }

    def check_attentions(self, attentions: tuple[Tensor, ...] | None) -> None:
        """Raises a ValueError if the attention kernel in use kept no weights."""
        if not attentions:
            kernel = self.attention_implementation
            raise ValueError(f"{kernel} attention keeps no weights: call set_attention('eager') first")

    def check_contracts(self) -> None:
        """Raises a ValueError that names the architecture if it breaks a contract of the Classifier interface."""
        model_type = self.transformer.config.model_type
        try:
            violations = contract_violations(self) + self.departures()
        # the probe calls foreign code with unknown demands; whatever it raises means that the network cannot be used
        except Exception as error:
            raise ValueError(f"{model_type} cannot be explained: {type(error).__name__}: {error}") from error
        if violations:
            raise ValueError(f"{model_type} cannot be explained: {'; '.join(violations)}")

    def departures(self) -> list[str]:
        """Returns in what this classifier departs from the bare network that it wraps, [] if in nothing."""
        return []

    def architecture(self) -> dict[str, Any]:
        return self.init_args | {"path": None, "config": architecture_config(self.transformer.config), "dropout": None}
