"""Language models that classify a text by predicting the next token after a prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from lightning_xai.functional.network.modes import evaluation_mode
from lightning_xai.functional.propagation.tracked import Tracked
from lightning_xai.functional.text.padding import take_columns
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.models.base import check_num_classes
from lightning_xai.models.contracts import TOLERANCE, random_inputs
from lightning_xai.models.huggingface import HeadOutput, HuggingFaceClassifier, TransformerCall
from lightning_xai.models.pretrained.lora import add_adapters, check_lora
from lightning_xai.models.pretrained.transformers_config import read_config
from lightning_xai.models.pretrained.transformers_loading import load_transformer
from lightning_xai.models.transformer.pooling import pooling_readout
from lightning_xai.models.transformer.prompt_cache import PromptCache, cache_argument, has_hooks, shared_columns
from lightning_xai.types import TextInputs

_FEWEST_COLUMNS = 4  # smallest number of prompt columns for which sharing keys and values saves time


class VerbalizerLM(HuggingFaceClassifier):
    """A causal language model (Llama, Mistral, Qwen2, GPT-2) with one answer token, the verbalizer, for each class.

    The logit of a class is the logit that the language model gives the class's verbalizer as the next token after the
    prompt. A PromptEncoder puts each text into the prompt.

    The prompt's tokens before the text are the same in every row. In eval mode, the network processes them once, and
    later passes reuse their keys and values. This changes neither logits nor the gradients with respect to the text's
    embeddings, but the gradients with respect to the prompt's embeddings are then 0. The prompt is processed together
    with the text if weights require gradients and gradients are enabled, if attentions or hidden states are requested,
    if modules have hooks, or if the prompt's embeddings are not the network's own.

    Args:
        path: folder, hub id, "package:NAME/FOLDER" or GGUF file of a causal language model.
        num_classes: number of classes C.
        verbalizers: C token ids, one answer token for each class. Configuration files leave them out, since they come
            from the data's encoder.
        prompt_cache: whether forward passes share the prompt's keys and values.
        pretrained: whether to load the weights at `path`. If False, the weights are random.
        dropout, config, trust_remote_code, lora: as in HFClassifier.

    Raises:
        ValueError: there is no causal language model at `path`, the verbalizers do not match the classes or the
            vocabulary, or the architecture lacks a property that attributions need.

    Example:
        >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> config = {"model_type": "llama", "intermediate_size": 4} | sizes
        >>> network = VerbalizerLM(config=config, verbalizers=[7, 9])
        >>> output = network(TextInputs.of_ids([[1, 5, 6, 2]]))
        >>> output.logits.shape, output.readout.tolist()
        (torch.Size([1, 2]), [[[0.0, 0.0, 0.0, 1.0]]])
    """

    readout_is_attention: ClassVar[bool] = False
    multilabel = False

    def __init__(
        self,
        path: str | None = None,
        num_classes: int = 2,
        verbalizers: list[int] | None = None,
        *,
        prompt_cache: bool = True,
        pretrained: bool = True,
        dropout: float | None = None,
        config: dict[str, Any] | None = None,
        trust_remote_code: bool = False,
        lora: dict[str, Any] | None = None,
    ) -> None:
        check_num_classes(num_classes, multilabel=False)
        if lora is not None:
            check_lora(lora, path, pretrained=pretrained)
        settings = read_config(path, config, dropout=dropout, trust_remote_code=trust_remote_code)
        if type(settings) not in AutoModelForCausalLM._model_mapping and "auto_map" not in settings:
            raise ValueError(f"{settings.model_type} is not a causal language model of transformers")
        weights = path if pretrained else None
        loaded = load_transformer(AutoModelForCausalLM, weights, settings, trust_remote_code=trust_remote_code)
        language_model: Any = loaded.network
        super().__init__(language_model.base_model, "word")
        self.weight_gaps = loaded.gaps
        self.num_classes = num_classes
        self.prompt_cache = prompt_cache
        self._cache = PromptCache()
        self.transformer.config.use_cache = False
        head: Any = language_model.get_output_embeddings()
        is_tied = head.weight is self.embedding_matrix
        # the layer that maps states [D] to logits [V]; None if its only weights are the embedding table
        self.output = None if is_tied and head.bias is None else head
        rows = self.embedding_matrix.shape[0]
        self.verbalizers = _checked_verbalizers(verbalizers, num_classes, rows)
        self._language_model: tuple[PreTrainedModel, ...] = (language_model,)  # a tuple hides the model from nn.Module
        self.check_new_contracts()
        self._language_model, self._cache = (), PromptCache()
        if lora is not None:
            add_adapters(self, lora)

    def check_length(self, num_tokens: int, subject: str) -> None:
        if self.max_length is not None and num_tokens > self.max_length:
            raise ValueError(
                f"{subject} has {num_tokens} tokens with its prompt, but {self.transformer.config.model_type} has "
                f"{self.max_length} positions: set the data's max_length to at most {self.max_length}"
            )

    def transformer_call(self, inputs: TextInputs, inputs_embeds: Tensor | None) -> TransformerCall:
        attended = inputs.attention_mask.clone()
        # a row of only padding attends to its first column, because the attention kernels disagree on the result of a
        # row that attends to nothing
        attended[:, 0] |= ~inputs.attention_mask.any(dim=1)
        arguments = self.network_inputs(inputs) | {"attention_mask": attended.long()}
        columns = 0
        if inputs.prompt_mask is not None and len(inputs):
            outside_text = inputs.prompt_mask | (inputs.special_tokens_mask & inputs.attention_mask)
            columns = shared_columns(inputs.input_ids, outside_text & ~inputs.token_mask)
            # the last token of each row must pass through the network, because its state gives the logits
            columns = min(columns, int(inputs.attention_mask.sum(dim=1).min()) - 1)
        return TransformerCall(arguments, inputs_embeds, inputs.attention_mask, columns)

    def run(self, call: TransformerCall, *, output_attentions: bool, output_hidden_states: bool) -> Any:
        """Runs the transformer. The output lacks the prompt's first tokens if their stored keys and values are used."""
        flags = {"output_attentions": output_attentions, "output_hidden_states": output_hidden_states}
        # `_may_share` may drop the prompt's stored keys and values, so it is called even if attentions are requested
        if not self._may_share(call) or output_attentions or output_hidden_states:
            return super().run(call, **flags)
        device, columns = self.embedding_matrix.device, call.num_prompt_columns
        ids, positions = (call.arguments[name][0, :columns] for name in ("input_ids", "position_ids"))
        precision = torch.is_autocast_enabled(device.type), torch.get_autocast_dtype(device.type)
        state = (self.attention_implementation, *precision)
        columns = self._cache.first_columns(self.transformer, ids, positions, state)
        cache = self._cache.copy(len(call.keep), columns)
        arguments: dict[str, Any] = {
            name: value if name == "attention_mask" else value[:, columns:] for name, value in call.arguments.items()
        }
        arguments |= cache_argument(self.transformer, cache) | {"use_cache": True}
        embeds = None if call.embeds is None else call.embeds[:, columns:]
        return super().run(TransformerCall(arguments, embeds, call.keep[:, columns:]), **flags)

    def forget_prompt(self) -> None:
        """Drops the prompt's stored keys and values. The next forward pass computes them again."""
        self._cache.clear()

    def _may_share(self, call: TransformerCall) -> bool:
        columns = call.num_prompt_columns
        trains = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in self.parameters())
        if self.training or trains:
            # the cache notices a change of weights in place only by their `_version`, which a fused optimizer does not
            # raise. So training empties the cache
            self.forget_prompt()
            return False  # stored keys and values have no graph, so weights would get no gradient from the prompt
        if not self.prompt_cache or columns < _FEWEST_COLUMNS:
            return False
        if has_hooks(self.transformer):
            return False  # hooks of attribution methods must also see the computations for the prompt
        if call.embeds is None:
            return True
        prompt_embeds = self.embedding_module(call.arguments["input_ids"][:1, :columns])
        runs: list[Tensor | None] = [call.embeds]
        if isinstance(call.embeds, Tracked):  # DeepLift runs the network for a text and its baseline at once
            runs = [call.embeds.plain(), call.embeds.second_run]
        return all(run is not None and bool((run[:, :columns].detach() == prompt_embeds).all()) for run in runs)

    def last_states(self, output: Any, inputs: TextInputs) -> Tensor:
        """Returns the hidden state [B, D] of each row's last token. The padding of `output` is on the right."""
        lengths = inputs.attention_mask.sum(dim=1)
        missing = inputs.input_ids.shape[1] - output.last_hidden_state.shape[1]  # prompt tokens that `run` left out
        rows = torch.arange(len(inputs), device=lengths.device)
        return output.last_hidden_state[rows, (lengths - 1).clamp(min=0) - missing]

    def head_output(self, output: Any, inputs: TextInputs, columns: Tensor | None) -> HeadOutput:
        readout = pooling_readout(inputs.attention_mask, pooling="last", dtype=self.embedding_matrix.dtype)
        states = output.hidden_states
        if states is not None:
            states = tuple(state if columns is None else take_columns(state, columns) for state in states)
        return HeadOutput(self.verbalizer_logits(self.last_states(output, inputs)), readout, states)

    def verbalizer_logits(self, states: Tensor) -> Tensor:
        """Returns the verbalizers' logits. `states` has shape [..., D], the result has shape [..., C]."""
        table = self.embedding_matrix if self.output is None else self.output.weight
        bias = None if self.output is None or self.output.bias is None else self.output.bias[self.verbalizers]
        return nn.functional.linear(states, table[self.verbalizers], bias)

    @torch.no_grad()
    def verbalizer_mass(self, inputs: TextInputs) -> Tensor:
        """Returns the probability [B] that the next token is one of the verbalizers.

        Example:
            >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
            >>> config = {"model_type": "llama", "intermediate_size": 4} | sizes
            >>> network = VerbalizerLM(config=config, num_classes=20, verbalizers=list(range(20)))
            >>> network.verbalizer_mass(TextInputs.of_ids([[1, 5]])).round().tolist()
            [1.0]
        """
        output, _ = self.transformer_output(inputs)
        states = self.last_states(output, inputs)
        table = self.embedding_matrix if self.output is None else self.output.weight
        logits = nn.functional.linear(states, table, None if self.output is None else self.output.bias).float()
        return (logits[:, self.verbalizers].logsumexp(dim=1) - logits.logsumexp(dim=1)).exp()

    def head_layers(self) -> list[Callable[[Tensor], Tensor]]:
        return [self.verbalizer_logits]

    @torch.no_grad()
    def differences_from_transformer(self) -> list[str]:
        """Returns messages: one if logits differ from the language model's, one if a shared prompt changes logits."""
        inputs = random_inputs(self, [7, 7])
        prompt = torch.arange(7, device=inputs.device) < _FEWEST_COLUMNS
        ids = inputs.input_ids.where(~prompt, inputs.input_ids[:1])
        inputs = TextInputs(
            ids, inputs.attention_mask, inputs.token_mask & ~prompt, inputs.special_tokens_mask, ids,
            prompt_mask=prompt.expand(2, -1),
        )  # fmt: skip
        language_model, messages = self._language_model[0], []
        with evaluation_mode(self):
            logits = language_model(inputs.input_ids, attention_mask=inputs.attention_mask.long()).logits
            expected = logits[:, -1, self.verbalizers]
            tolerance = TOLERANCE * (1 + float(expected.abs().max()))
            shares, self.prompt_cache = self.prompt_cache, False
            alone = self(inputs).logits
            if not (gap := float((alone - expected).abs().max())) <= tolerance:
                messages.append(f"logits differ from the language model's own by {gap:.2g}")
            self.prompt_cache = shares
            if not (gap := float((self(inputs).logits - alone).abs().max())) <= tolerance:
                messages.append(f"sharing the prompt changes logits by {gap:.2g} (set `prompt_cache: false`)")
        return messages


def _checked_verbalizers(verbalizers: list[int] | None, num_classes: int, num_ids: int) -> list[int]:
    if verbalizers is None:
        raise ValueError("VerbalizerLM has no verbalizers: use a PromptEncoder, or give the ids of the answer tokens")
    if len(verbalizers) != num_classes:
        raise ValueError(
            f"the network has {quantity(len(verbalizers), 'verbalizer')} for {quantity(num_classes, 'class')}: "
            "give one verbalizer for each class"
        )
    for number, token_id in enumerate(verbalizers):
        if not 0 <= token_id < num_ids:
            raise ValueError(f"verbalizer {token_id} is not an id of the vocabulary: give ids from 0 to {num_ids - 1}")
        if token_id in verbalizers[:number]:
            raise ValueError(f"verbalizer {token_id} stands for two classes: give each class its own verbalizer")
    return list(verbalizers)
