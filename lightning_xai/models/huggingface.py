"""Base class of classifiers with a Hugging Face network, with replaceable embeddings and attention kernels."""

from __future__ import annotations

import inspect
import json
from abc import abstractmethod
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer
from lightning_xai.functional.network.modes import call_with_known_arguments, evaluation_mode, override_output
from lightning_xai.functional.text.padding import position_ids, right_padding_order, take_columns
from lightning_xai.models.base import Classifier
from lightning_xai.models.contracts import contract_violations, random_inputs
from lightning_xai.models.pretrained.pretrained_weights import shown
from lightning_xai.models.pretrained.transformers_config import architecture_config
from lightning_xai.models.transformer.encoder_layers import encoder_layers
from lightning_xai.types import ClassifierOutput, TextInputs

Embedding = Literal["word", "module"]

_accepted: set[tuple[type, str]] = set()  # class and architecture of random networks that passed the checks


class TransformerCall(NamedTuple):
    """The inputs of the transformer in one forward pass."""

    arguments: dict[str, Tensor]  # keyword arguments; `run` leaves out those that the transformer does not accept
    embeds: Tensor | None  # replaces the output of the embedding module where `keep` is True; None replaces nothing
    keep: Tensor  # bool, False at padding
    num_prompt_columns: int = 0  # number of leading columns with the same prompt in every row


class HeadOutput(NamedTuple):
    """The logits of a classifier, and the weights and states from which its head computed them."""

    logits: Tensor  # [B, C]
    readout: Tensor  # [B, 1 or C, T], the head's weights on token states
    hidden_states: tuple[Tensor, ...] | None  # each [B, T, D]


class HuggingFaceClassifier(Classifier):
    """A classifier that contains a Hugging Face network, the attribute `transformer`.

    `forward` moves padding to the right, runs the transformer and checks its output. Subclasses define the inputs of
    the transformer (`transformer_call`), and how logits are computed from its output (`head_output`).

    The transformer always gets input ids. If embeddings are given, too, a forward hook makes the embedding module
    return the given embeddings. Everything else that the network computes from the ids stays the same.

    Args:
        transformer: network with or without a classification head.
        embedding: the part whose output is explained and attacked: "word" is the word embedding table, "module" the
            whole embedding module, with position and token type embeddings, LayerNorm and dropout.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> class FirstTokens(HuggingFaceClassifier):
        ...     readout_is_attention, num_classes, multilabel = False, 4, False
        ...
        ...     def transformer_call(self, inputs, inputs_embeds):
        ...         mask = {"attention_mask": inputs.attention_mask.long()}
        ...         return TransformerCall(self.network_inputs(inputs) | mask, inputs_embeds, inputs.attention_mask)
        ...
        ...     def head_output(self, output, inputs, columns):
        ...         readout = torch.eye(inputs.input_ids.shape[1])[:1].expand(len(inputs), 1, -1)
        ...         return HeadOutput(output.last_hidden_state[:, 0], readout, output.hidden_states)
        >>> sizes = dict(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
        >>> network, inputs = FirstTokens(BertModel(BertConfig(**sizes)), "word").eval(), TextInputs.of_ids([[5, 6]])
        >>> torch.equal(network(inputs).logits, network(inputs, network.embed(inputs)).logits)
        True
    """

    base_names: frozenset[str] = frozenset()  # with LoRA, names of weights that are not trained and not in state dicts
    base_hash: str = ""  # with LoRA, hash of the files with the pretrained weights
    segment_length: int | None = None  # if set, position ids start again in every segment of this length

    def __init__(self, transformer: PreTrainedModel, embedding: Embedding) -> None:
        super().__init__()
        if embedding not in ("word", "module"):
            raise ValueError(f"embedding is {embedding!r}: give 'word' or 'module'")
        self.embedding = embedding
        self.transformer = transformer
        config = transformer.config
        self._fastest_attention = "eager" if config._attn_implementation == "eager" else "sdpa"
        self.set_attention("sdpa")
        embeddings: Any = getattr(transformer.base_model, "embeddings", None)
        if embedding == "module" and embeddings is None:
            raise ValueError(f"{config.model_type} has no embedding module: set `embedding: word`")
        table = getattr(embeddings, "position_embeddings", None)
        self._set_positions(config, table if isinstance(table, nn.Embedding) else None)
        self.pad_id: int = config.pad_token_id if config.pad_token_id is not None else 0
        self.special_ids: list[int] = self._ids_of_special_tokens(config)
        self.accepted_arguments = frozenset(inspect.signature(transformer.forward).parameters)

    def _set_positions(self, config: PretrainedConfig, table: nn.Embedding | None) -> None:
        padding = table.padding_idx if table is not None else None
        self.position_offset = 0 if padding is None else padding + 1  # RoBERTa counts positions from padding_idx + 1
        size = getattr(config, "max_position_embeddings", None) if table is None else table.num_embeddings
        self.max_length: int | None = size - self.position_offset if size and size > 0 else None

    def _ids_of_special_tokens(self, config: PretrainedConfig) -> list[int]:
        names = [name for name in config.to_dict() if name.endswith("_token_id")]
        ids = {getattr(config, name) for name in names} | {self.pad_id}
        vocabulary = range(self.embedding_matrix.shape[0])
        return sorted(i for i in ids if isinstance(i, int) and i in vocabulary)

    @abstractmethod
    def transformer_call(self, inputs: TextInputs, inputs_embeds: Tensor | None) -> TransformerCall:
        """Returns the transformer's inputs for one forward pass. The padding of `inputs` is on the right.

        Args:
            inputs_embeds: [B, T, D] embeddings that replace `embed(inputs)`; None replaces nothing.
        """

    @abstractmethod
    def head_output(self, output: Any, inputs: TextInputs, columns: Tensor | None) -> HeadOutput:
        """Returns a HeadOutput. Column t of its readout and of its hidden states belongs to column t of `inputs`.

        Args:
            output: the transformer's output, whose padding is on the right.
            inputs: the inputs as given by the caller, with padding in any column.
            columns: [B, T], the output's column for each column of `inputs`; None if the columns are the same.
        """

    def forward(
        self,
        inputs: TextInputs,
        inputs_embeds: Tensor | None = None,
        *,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> ClassifierOutput:
        """Returns logits and readout (the head's weights on token states). Only attentions need padding on the right.

        Raises:
            ValueError: a text has more tokens than the network has positions, or attentions are requested although
                padding is not on the right or attention is not eager.
        """
        flags = {"output_attentions": output_attentions, "output_hidden_states": output_hidden_states}
        output, columns = self.transformer_output(inputs, inputs_embeds, **flags)
        head_output = self.head_output(output, inputs, columns)
        return ClassifierOutput(
            logits=head_output.logits,
            readout=head_output.readout,
            attentions=tuple(output.attentions) if output_attentions else None,
            hidden_states=head_output.hidden_states if output_hidden_states else None,
        )

    def transformer_output(
        self,
        inputs: TextInputs,
        inputs_embeds: Tensor | None = None,
        *,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> tuple[Any, Tensor | None]:
        """Returns the transformer's output, and the output's column for each input column (see `ordered_call`)."""
        call, columns = self.ordered_call(inputs, inputs_embeds)
        if output_attentions and columns is not None:
            raise ValueError("attentions need padding on the right: move each row's tokens to the front")
        output = self.run(call, output_attentions=output_attentions, output_hidden_states=output_hidden_states)
        if output_attentions and not output.attentions:
            kernel = self.attention_implementation
            raise ValueError(f"{kernel} attention keeps no weights: call set_attention('eager') first")
        return output, columns

    def ordered_call(
        self, inputs: TextInputs, inputs_embeds: Tensor | None = None
    ) -> tuple[TransformerCall, Tensor | None]:
        """Moves padding to the right. Returns the transformer's inputs, and the new position [B, T] of each column.

        The positions are None if padding was already on the right. `head_output` gets them as its argument `columns`.
        """
        self.check_embeds(inputs, inputs_embeds)
        self.check_length(inputs.input_ids.shape[1], "the batch")
        order = right_padding_order(inputs.attention_mask)
        if order is None:
            return self.transformer_call(inputs, inputs_embeds), None
        ordered = inputs.map(lambda tensor: take_columns(tensor, order) if tensor.dim() > 1 else tensor)
        embeds = None if inputs_embeds is None else take_columns(inputs_embeds, order)
        return self.transformer_call(ordered, embeds), order.argsort(dim=1)

    def run(self, call: TransformerCall, *, output_attentions: bool, output_hidden_states: bool) -> Any:
        """Runs the transformer and returns its output."""
        with override_output(self.embedding_module, call.embeds, call.keep):
            return self.transformer(
                **{name: value for name, value in call.arguments.items() if name in self.accepted_arguments},
                output_attentions=output_attentions,
                output_hidden_states=output_hidden_states,
                return_dict=True,
            )

    @property
    def embedding_module(self) -> nn.Module:
        """The part of the transformer whose output counts as the embeddings, which are explained and attacked."""
        base: Any = self.transformer.base_model
        return base.embeddings if self.embedding == "module" else base.get_input_embeddings()

    def head_parameters(self) -> list[nn.Parameter]:
        encoder = {id(parameter) for parameter in self.transformer.base_model.parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in encoder]

    @property
    def embedding_matrix(self) -> Tensor:
        table: Any = self.transformer.get_input_embeddings()
        return table.weight

    def encoder_layers(self) -> list[EncoderLayer]:
        return encoder_layers(self.transformer)

    @property
    def attention_implementation(self) -> str:
        return self.transformer.config._attn_implementation

    def set_attention(self, implementation: Literal["eager", "sdpa"]) -> None:
        """Chooses the attention kernel. An architecture without an sdpa kernel keeps the eager kernel."""
        if implementation not in ("eager", "sdpa"):
            raise ValueError(f"attention implementation is {implementation!r}: give 'eager' or 'sdpa'")
        kernel = self._fastest_attention if implementation == "sdpa" else "eager"
        if kernel != self.attention_implementation:
            self.transformer.set_attn_implementation(kernel)

    def embed(self, inputs: TextInputs) -> Tensor:
        arguments = self.network_inputs(inputs)
        if self.embedding == "word":
            return self.embedding_module(arguments["input_ids"])
        return call_with_known_arguments(self.embedding_module, mask=inputs.attention_mask, **arguments)

    def network_inputs(self, inputs: TextInputs) -> dict[str, Tensor]:
        """Returns the transformer's arguments, each [B, T]: ids (pad id at padding), positions, token types if used."""
        arguments = {
            "input_ids": inputs.input_ids.masked_fill(~inputs.attention_mask, self.pad_id),
            "position_ids": position_ids(
                inputs.attention_mask, offset=self.position_offset, segment_length=self.segment_length
            ),
        }
        if inputs.token_type_ids is not None and getattr(self.transformer.config, "type_vocab_size", 0) > 1:
            arguments["token_type_ids"] = inputs.token_type_ids.masked_fill(~inputs.attention_mask, 0)
        return arguments

    def check_new_contracts(self) -> None:
        """Calls `check_contracts`. Without a `path`, networks of equal class and architecture are checked only once.

        Raises:
            ValueError: see `check_contracts`.
        """
        reads_weights = self.init_args.get("path") is not None
        key = type(self), json.dumps(self.architecture(), sort_keys=True, default=str)
        # autocast is off, because it caches copies of weights, and would use them after a loader has replaced weights
        with torch.autocast(self.embedding_matrix.device.type, enabled=False):
            if reads_weights or key not in _accepted:
                self.check_contracts()
            else:
                # transformers registers hooks in a network's first forward pass. A preflight (a trial before the run)
                # removes hooks that are registered while it runs, so the first pass is made here, before any preflight
                with evaluation_mode(self), torch.no_grad():
                    self(random_inputs(self, [1]), output_hidden_states=True)
        if not reads_weights:
            _accepted.add(key)

    def check_contracts(self) -> None:
        """Raises ValueError, with the architecture's name, if the network breaks a rule of Classifier's docstring."""
        model_type = self.transformer.config.model_type
        try:
            violations = contract_violations(
                self, special_ids=self.special_ids, segmented=self.segment_length is not None
            )
            violations += self.differences_from_transformer()
        # third-party code may raise any error; each means that the network cannot be explained
        except Exception as error:
            raise ValueError(f"{model_type} cannot be explained: {type(error).__name__}: {error}") from error
        broken = [name for name, weight in self.named_parameters() if violations and not weight.isfinite().all()]
        if broken:
            origin = self.init_args.get("path") or model_type
            raise ValueError(f"{origin}: the weights {shown(broken)} are not finite: download the weights again")
        if violations:
            raise ValueError(f"{model_type} cannot be explained: {'; '.join(violations)}")

    def differences_from_transformer(self) -> list[str]:
        """Returns messages about logits that differ from those of the bare Hugging Face network; by default []."""
        return []

    def architecture(self) -> dict[str, Any]:
        if type(self.transformer).__module__.startswith("transformers_modules"):
            return self.init_args | {"pretrained": False}  # `path` stays: the code of the network's class is there
        if self.init_args.get("lora") is not None and self.base_names:  # `path` stays: the frozen weights are there
            return self.init_args | {"lora": self.init_args["lora"] | {"base": self.base_hash}}
        rebuilt: dict[str, Any] = {"path": None, "lora": None} if "lora" in self.init_args else {"path": None}
        rebuilt |= {"config": architecture_config(self.transformer.config), "dropout": None}
        if "num_layers" in self.init_args:
            rebuilt["num_layers"] = None  # the entry "config" contains the number of layers
        return self.init_args | rebuilt | {"trust_remote_code": False}
