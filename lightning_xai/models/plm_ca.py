"""PLM-CA: an encoder over segments of a long text, read by one cross-attention query per class."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import MODEL_MAPPING, AutoModel

from lightning_xai.functional.modes import override_output
from lightning_xai.functional.padding import right_padding_order, take_columns
from lightning_xai.models.base import check_num_classes
from lightning_xai.models.huggingface import HuggingFaceClassifier, load_transformer, read_config
from lightning_xai.types import ClassifierOutput, TextInputs


def class_attention(queries: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
    """Returns attention scores [B, C, T] (before softmax) of class queries [C, D] over token keys [B, T, D].

    Args:
        keep: [B, T] bool; scores are the dtype's lowest number where it is False, so that softmax gives exactly 0 there
            and a row without any token stays finite.
    """
    # bmm, since matmul would broadcast by copying its result
    scores = torch.bmm(queries.expand(keys.shape[0], -1, -1), keys.transpose(1, 2))  # [B, C, T]
    # in place: with thousands of classes and tokens this tensor is the largest of all
    return scores.masked_fill_(~keep.unsqueeze(1), torch.finfo(scores.dtype).min)


def own_padding(lengths: Tensor, *, segment_length: int) -> tuple[Tensor, Tensor]:
    """Returns the S columns [B, S] after each text's end, and which of them complete its own last segment [B, S] bool.

    A text whose length is a multiple of `segment_length` has one whole segment of padding.
    """
    columns = lengths.unsqueeze(1) + torch.arange(segment_length, device=lengths.device)
    full = (lengths // segment_length + 1) * segment_length
    return columns, columns < full.unsqueeze(1)


class PLMCA(HuggingFaceClassifier):
    """Encodes segments of `segment_length` tokens apart, then lets each class attend to all tokens of the text.

    A = softmax(Q (H W_k)^T) over tokens with one learned query per class and no scaling, and
    logit_j = w . LayerNorm(A_j (H W_v + b_v)) + b with w, b and the LayerNorm shared by all classes.
    Segments have no special tokens of their own: [CLS] opens and the end token closes the whole text.

    Args:
        path: folder, hub id, or "package:NAME/FOLDER" of the encoder.
        num_classes: number of classes C.
        multilabel: whether an example can have several classes (sigmoid) or has one (softmax).
        pretrained: False draws random weights for the architecture at `path`.
        segment_length: tokens S per segment; positions start again in each.
        dropout: replaces every dropout probability of the encoder; None keeps them.
        mask_mode: "correct" lets classes attend to tokens only. "legacy" lets them also attend to the padding of the
            text's own last segment, as the authors' released weights were trained; readout then sums to less than 1.
        embedding: which module's output is embedded, explained and attacked: the "word" table or the whole "module".
        config: instead of `path`, a Hugging Face config with "model_type", for a random encoder.

    Raises:
        ValueError: there is nothing at `path`, a segment is longer than the encoder's positions, or the encoder
            breaks a contract on which attributions rest.

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
    Records", arXiv 2406.08958, section 3 and appendix A.

    Differs: the paper's formula leaves out the biases of values and output that its code has; they are here. The mask
    of the code's cross-attention had no effect until 2026, so published results attend to padding, as
    mask_mode="legacy" does.
    """

    readout_is_attention: ClassVar[bool] = True

    def __init__(
        self,
        path: str | None = None,
        num_classes: int = 2,
        multilabel: bool = True,
        *,
        pretrained: bool = True,
        segment_length: int = 128,
        dropout: float | None = 0.2,
        mask_mode: Literal["correct", "legacy"] = "correct",
        embedding: Literal["word", "module"] = "module",
        config: dict | None = None,
    ) -> None:
        check_num_classes(num_classes, multilabel=multilabel)
        if mask_mode not in ("correct", "legacy"):
            raise ValueError(f"mask_mode is {mask_mode!r}: give 'correct' or 'legacy'")
        settings = read_config(path, config, dropout=dropout)
        if type(settings) not in MODEL_MAPPING:
            raise ValueError(f"{settings.model_type} is no encoder of transformers")
        takes_pooler = "add_pooling_layer" in inspect.signature(MODEL_MAPPING[type(settings)].__init__).parameters
        options = {"add_pooling_layer": False} if takes_pooler else {}
        super().__init__(load_transformer(AutoModel, path if pretrained else None, settings, **options), embedding)
        if segment_length < 1 or segment_length > (self.max_length or segment_length):
            raise ValueError(
                f"segment_length is {segment_length}: {settings.model_type} here has positions for {self.max_length}"
            )
        self.num_classes = num_classes
        self.multilabel = multilabel
        self.mask_mode = mask_mode
        size = settings.hidden_size
        self.class_queries = nn.Parameter(torch.empty(num_classes, size).normal_(std=0.03))
        self.key = nn.Linear(size, size, bias=False)
        self.value = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)
        self.output = nn.Linear(size, 1)
        self.segment_length = min(segment_length, 3)  # the check's short texts then have several segments
        self.check_contracts()
        self.segment_length = segment_length

    def forward(
        self,
        inputs: TextInputs,
        inputs_embeds: Tensor | None = None,
        *,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> ClassifierOutput:
        """Returns logits and the class attention as readout [B, C, T]; padding may lie anywhere.

        Raises:
            ValueError: attentions are asked for with padding that is not on the right, or without eager attention.
        """
        self.check_embeds(inputs, inputs_embeds)
        length = inputs.input_ids.shape[1]
        order = right_padding_order(inputs.attention_mask)
        segmented = inputs
        if order is not None:
            if output_attentions:
                raise ValueError("attentions need padding on the right: move each row's tokens to the front")
            segmented = inputs.map(lambda tensor: take_columns(tensor, order) if tensor.dim() > 1 else tensor)
            inputs_embeds = None if inputs_embeds is None else take_columns(inputs_embeds, order)
        states, attentions = self._encode(segmented, inputs_embeds, output_attentions, output_hidden_states)
        full = states[-1]  # [B, N * S, D]
        # classes attend to a set of tokens, so the columns can go back to where the caller has them
        back = None if order is None else order.argsort(dim=1)
        states = tuple(s[:, :length] if back is None else take_columns(s[:, :length], back) for s in states)
        values, readout, padding = self.value(states[-1]), None, None
        scores = class_attention(self.class_queries, self.key(states[-1]), inputs.attention_mask)
        # in half precision, weights over thousands of tokens would not sum to 1
        precision = torch.promote_types(scores.dtype, torch.float32)
        if self.mask_mode == "legacy":
            lengths = inputs.attention_mask.sum(dim=1)
            columns, keep = own_padding(lengths, segment_length=self.segment_length)
            # a segment of columns at most, where all of `full` would double the largest tensors
            extra = take_columns(full, columns.clamp(max=full.shape[1] - 1))  # [B, S, D]
            scores = torch.cat([scores, class_attention(self.class_queries, self.key(extra), keep)], dim=-1)
            weights = scores.softmax(dim=-1, dtype=precision)
            readout, padding = weights[..., :length], weights[..., length:].to(values.dtype) @ self.value(extra)
        else:
            readout = scores.softmax(dim=-1, dtype=precision)
        return ClassifierOutput(
            logits=self.read_logits(readout, values, padding),
            readout=readout,
            attentions=attentions,
            hidden_states=states if output_hidden_states else None,
        )

    def read_logits(self, readout: Tensor, values: Tensor, padding: Tensor | None = None) -> Tensor:
        """Returns logits [B, C] of a readout [B, C, T] over values [B, T, D] (`value` of the last hidden state).

        Args:
            padding: [B, C, D], what classes read from padding beside it.
        """
        read = readout.to(values.dtype) @ values  # [B, C, D]
        return self.output(self.norm(read if padding is None else read + padding)).squeeze(-1)

    def head_layers(self) -> list[Callable[[Tensor], Tensor]]:
        if self.mask_mode == "legacy":
            raise ValueError(
                "mask_mode is 'legacy': its classes also read padding, which no token can be credited with; decompose "
                "a network with mask_mode 'correct'"
            )
        # rows of the readout sum to 1, so values can be taken after reading
        return [self.value, self.norm, self.output]

    def _encode(
        self, inputs: TextInputs, inputs_embeds: Tensor | None, output_attentions: bool, output_hidden_states: bool
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...] | None]:
        """Returns hidden states, each [B, N * S, D] (the last only unless asked), and attentions L x [B*N, H, S, S]."""
        rows, length = inputs.input_ids.shape
        # legacy needs room for the segment of padding after a text that ends with its segment
        size, segments = self.segment_length, length // self.segment_length + 1
        if self.mask_mode == "correct":
            size = max(min(size, length), 1)  # a short batch is one segment of its own length
            segments = max(-(-length // size), 1)
        extra = segments * size - length
        padded = inputs.map(lambda tensor: F.pad(tensor, (0, extra)) if tensor.dim() > 1 else tensor)
        if inputs_embeds is not None:
            inputs_embeds = F.pad(inputs_embeds, (0, 0, 0, extra)).reshape(rows * segments, size, -1)
        arguments = self.network_inputs(padded) | {"attention_mask": padded.attention_mask}
        arguments = {
            name: value.reshape(rows * segments, size)
            for name, value in arguments.items()
            if value is not None and name in self.accepted
        }
        keep = arguments["attention_mask"]
        # a segment of padding only attends to itself: its tokens are all alike, and no kernel sees an empty row
        arguments["attention_mask"] = (keep | ~keep.any(dim=1, keepdim=True)).long()
        with override_output(self.embedding_module, inputs_embeds, keep):
            output = self.transformer(
                **arguments,
                output_attentions=output_attentions,
                output_hidden_states=output_hidden_states,
                return_dict=True,
            )
        if output_attentions:
            self.check_attentions(output.attentions)
        states = output.hidden_states if output_hidden_states else (output.last_hidden_state,)
        states = tuple(state.reshape(rows, segments * size, -1) for state in states)
        return states, tuple(output.attentions) if output_attentions else None
