"""Hugging Face encoders and decoders with the classification head of transformers."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from lightning_xai.functional.network.modes import evaluation_mode
from lightning_xai.functional.text.padding import take_columns
from lightning_xai.models.base import check_num_classes
from lightning_xai.models.contracts import random_inputs
from lightning_xai.models.huggingface import Embedding, HeadOutput, HuggingFaceClassifier, TransformerCall
from lightning_xai.models.pretrained.lora import add_adapters, check_lora
from lightning_xai.models.pretrained.transformers_config import read_config
from lightning_xai.models.pretrained.transformers_loading import load_transformer
from lightning_xai.models.transformer.encoder_layers import head_layers
from lightning_xai.models.transformer.head_options import set_head_activation, set_head_dropout
from lightning_xai.models.transformer.pooling import HeadPooling, pooling_readout
from lightning_xai.types import TextInputs


class HFClassifier(HuggingFaceClassifier):
    """A pretrained encoder or decoder with the classification head that transformers defines for its architecture.

    The head of an encoder reads the first token or the mean of all tokens. The head of a decoder (Llama, Qwen2,
    Mistral, GPT-2) reads the last token.

    Args:
        path: folder, hub id, or "package:NAME/FOLDER" of a network. If the network has no classification head, it gets
            one with random weights.
        num_classes: number of classes C.
        multilabel: whether an example can have several classes (sigmoid), or has exactly one (softmax).
        pretrained: whether to load the weights at `path`. If False, the weights are random.
        dropout: replaces every dropout probability of the network; None keeps them.
        head_dropout: dropout probability of the head only. If None, the head's probability is `dropout`, or that of the
            config if `dropout` is None, too.
        head_activation: replaces the activation function of the head, for example by "tanh"; None keeps it.
        num_layers: number of layers to use, counted from the first; None uses all.
        embedding: the part whose output is explained and attacked: "word" (the table of word embeddings) or "module"
            (the whole embedding module with its LayerNorm).
        config: a Hugging Face config with "model_type", given instead of `path` to build a network with random weights.
        trust_remote_code: whether Python code in the folder at `path` may run.
        lora: options of low-rank adapters: `rank`, `alpha`, `dropout` and `targets`, as in `LoraOptions`. Only the
            adapters and the head are then trained. Checkpoints contain the weights of these two, and only the path and
            hash of the other weights. None trains all weights.

    Raises:
        ValueError: there is no model at `path`, its head has another number of classes, or the architecture breaks a
            contract: a property that attributions need, such as logits that do not depend on padding. The message names
            the contract and the size of the error.

    Example:
        >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> network = HFClassifier(config={"model_type": "bert", "intermediate_size": 4} | sizes, num_classes=3)
        >>> output = network(TextInputs.of_ids([[1, 5, 6, 2]]))
        >>> output.logits.shape, output.readout.tolist()
        (torch.Size([1, 3]), [[[1.0, 0.0, 0.0, 0.0]]])
    """

    readout_is_attention: ClassVar[bool] = False

    def __init__(
        self,
        path: str | None = None,
        num_classes: int = 2,
        multilabel: bool = False,
        *,
        pretrained: bool = True,
        dropout: float | None = None,
        head_dropout: float | None = None,
        head_activation: str | None = None,
        num_layers: int | None = None,
        embedding: Embedding = "word",
        config: dict[str, Any] | None = None,
        trust_remote_code: bool = False,
        lora: dict[str, Any] | None = None,
    ) -> None:
        check_num_classes(num_classes, multilabel=multilabel)
        if lora is not None:
            check_lora(lora, path, pretrained=pretrained)
        settings = read_config(
            path, config, dropout=dropout, num_layers=num_layers, trust_remote_code=trust_remote_code
        )
        settings.num_labels = num_classes
        if head_dropout is not None:
            set_head_dropout(settings, head_dropout)
        own_code = trust_remote_code and AutoModelForSequenceClassification.__name__ in getattr(
            settings, "auto_map", {}
        )
        if type(settings) not in AutoModelForSequenceClassification._model_mapping and not own_code:
            raise ValueError(f"{settings.model_type} has no sequence classification head in transformers")
        weights = path if pretrained else None
        loaded = load_transformer(
            AutoModelForSequenceClassification,
            weights,
            settings,
            num_layers=num_layers,
            trust_remote_code=trust_remote_code,
        )
        if head_activation is not None:
            set_head_activation(loaded.network, head_activation)
        super().__init__(loaded.network, embedding)
        self.weight_gaps = loaded.gaps
        self.num_classes = num_classes
        self.multilabel = multilabel
        # A decoder's head is a layer named `score`, which reads the last token. If `score` reads another token, the
        # method check_contracts raises an error.
        is_decoder = hasattr(self.transformer, "score")
        self.pooling: HeadPooling = "last" if is_decoder else getattr(settings, "classifier_pooling", "cls")
        self._given_pad_id: int | None = self.transformer.config.pad_token_id
        if is_decoder:
            self.transformer.config.pad_token_id = self.pad_id  # without a pad id, transformers refuses batches
            self.transformer.config.use_cache = False
        self.check_new_contracts()
        if lora is not None:
            add_adapters(self, lora)

    def check_length(self, num_tokens: int, subject: str) -> None:
        if self.max_length is not None and num_tokens > self.max_length:
            raise ValueError(
                f"{subject} has {num_tokens} tokens, but {self.transformer.config.model_type} has {self.max_length} "
                f"positions: set the data's max_length to at most {self.max_length}"
            )

    def transformer_call(self, inputs: TextInputs, inputs_embeds: Tensor | None) -> TransformerCall:
        # A text without any token attends to its first padding token. Otherwise, different attention kernels would give
        # different results for this text.
        attended = inputs.attention_mask.clone()
        attended[:, 0] |= ~inputs.attention_mask.any(dim=1)
        arguments = self.network_inputs(inputs) | {"attention_mask": attended.long()}
        if self.pooling == "last":
            # transformers takes the last token whose id is not the pad id as the last token of the text. A real token
            # may have the pad id, so all real tokens get another id here; their embeddings are passed separately
            inputs_embeds = self.embed(inputs) if inputs_embeds is None else inputs_embeds
            no_pad_id = (self.pad_id + 1) % self.embedding_matrix.shape[0]
            arguments["input_ids"] = arguments["input_ids"].masked_fill(inputs.attention_mask, no_pad_id)
        return TransformerCall(arguments, inputs_embeds, inputs.attention_mask)

    def head_output(self, output: Any, inputs: TextInputs, columns: Tensor | None) -> HeadOutput:
        """Returns the transformer's own logits, the weight of each token in the pooled state, and hidden states.

        Column t of the weights and of the hidden states belongs to column t of `inputs`. The base class describes the
        arguments.
        """
        readout = pooling_readout(inputs.attention_mask, pooling=self.pooling, dtype=self.embedding_matrix.dtype)
        states = output.hidden_states
        if states is not None:
            states = tuple(state if columns is None else take_columns(state, columns) for state in states)
        return HeadOutput(output.logits, readout, states)

    def architecture(self) -> dict[str, Any]:
        arguments = super().architecture()
        # If a decoder's config has no pad id, `__init__` adds one. The stored config must not have the added id:
        # a network that is built from a config with a pad id does not train the embedding of the token with this id.
        if arguments["config"] is not None:
            arguments["config"]["pad_token_id"] = self._given_pad_id
            arguments["head_dropout"] = None  # the entry "config" contains this probability
        return arguments

    def head_layers(self) -> list[Callable[[Tensor], Tensor]]:
        return head_layers(self.transformer)

    @torch.no_grad()
    def differences_from_transformer(self) -> list[str]:
        """Returns a message if the logits differ from those of a direct call of `transformer` with token ids.

        They differ, for example, if this class passes wrong positions to the transformer.
        """
        inputs = random_inputs(self, [7])
        with evaluation_mode(self):
            bare = self.transformer(inputs.input_ids, attention_mask=inputs.attention_mask.long()).logits
            gap = float((self(inputs).logits - bare).abs().max())
        return (
            []
            if gap <= 1e-4 * (1 + float(bare.abs().max()))
            else [f"logits differ from the transformer's own by {gap:.2g}"]
        )


def random_bert(num_classes: int = 2) -> HFClassifier:
    """Returns a BERT with random weights, one layer and 20 token ids, in eval mode, for examples in docstrings.

    Its weight matrices are drawn from N(0, 1) with a fixed seed. Attention is eager, so that every method can explain
    the network. The global random state does not change.

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
        >>> random_bert(num_classes=3)(inputs).logits.shape
        torch.Size([1, 3])
    """
    return copy.deepcopy(_random_bert(num_classes))


@functools.cache
def _random_bert(num_classes: int) -> HFClassifier:
    """Returns the network that `random_bert` copies. It is cached, since building takes 3 times as long as copying."""
    sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
    with torch.inference_mode(False), torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(0)
        network = HFClassifier(config={"model_type": "bert", "intermediate_size": 4, **sizes}, num_classes=num_classes)
        for weight in network.parameters():
            if weight.dim() > 1:  # biases stay 0, and the weights of norms stay 1
                weight.normal_()
    network.set_attention("eager")
    return network.eval()
