"""PLM-CA: encodes the segments of a long text separately; one query per class attends to the tokens of all segments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import MODEL_MAPPING, AutoModel

from lightning_xai.functional.erasure.evaluate import Versions
from lightning_xai.functional.text.padding import take_columns
from lightning_xai.models.base import check_num_classes
from lightning_xai.models.huggingface import Embedding, HeadOutput, HuggingFaceClassifier, TransformerCall
from lightning_xai.models.pretrained.pretrained_weights import WeightGaps
from lightning_xai.models.pretrained.transformers_config import has_own_code, read_config
from lightning_xai.models.pretrained.transformers_loading import load_transformer
from lightning_xai.models.segments.class_attention import class_attention, fused_class_attention
from lightning_xai.models.segments.logits_by_segment import logits_by_segment
from lightning_xai.models.segments.segment_graph import SegmentGraph
from lightning_xai.types import ClassifierOutput, TextInputs


def last_segment_padding(lengths: Tensor, *, segment_length: int) -> tuple[Tensor, Tensor]:
    """Returns the indices [B, S] of the S columns that follow each text's tokens, and a mask [B, S] of these columns.

    S is `segment_length`. The mask is True for the padding of the text's last segment. If the last segment is full, the
    mask is True for all S columns, which form one more segment.

    Example:
        >>> columns, keep = last_segment_padding(torch.tensor([3]), segment_length=4)
        >>> columns.tolist(), keep.tolist()
        ([[3, 4, 5, 6]], [[True, False, False, False]])
    """
    columns = lengths.unsqueeze(1) + torch.arange(segment_length, device=lengths.device)
    full = (lengths // segment_length + 1) * segment_length
    return columns, columns < full.unsqueeze(1)


class PLMCA(HuggingFaceClassifier):
    """A classifier that encodes segments of a text separately; then each class attends to the tokens of all segments.

    With the token states H, the attention is A = softmax(Q (H W_k)^T) over tokens, without scaling, where Q holds one
    learned query for each class. The logit of class j is w . LayerNorm(A_j (H W_v + b_v)) + b, where all classes share
    w, b and the LayerNorm. [CLS] and the end token enclose the whole text, not each segment.

    Args:
        path: folder, hub id, or "package:NAME/FOLDER" of the encoder.
        num_classes: number of classes C.
        multilabel: whether an example can have several classes (sigmoid), or has exactly one (softmax).
        pretrained: whether to load the encoder's weights at `path`. If False, its weights are random.
        segment_length: number S of tokens in a segment. Position ids start again in each segment.
        dropout: replaces every dropout probability of the encoder; None keeps them.
        num_layers: number of layers to use, counted from the first; None uses all.
        mask_mode: "correct" lets classes attend to tokens only. "legacy" lets classes attend also to the padding of
            the text's last segment, as in the training of the authors' released weights. The attention to tokens then
            sums to less than 1.
        embedding: the part whose output is explained and attacked: "word" (the table of word embeddings) or "module"
            (the whole embedding module with its LayerNorm).
        config: a Hugging Face config with "model_type", given instead of `path`; the encoder's weights are then random.
        trust_remote_code: whether Python code in the folder at `path` may run.

    Raises:
        ValueError: there is no model at `path`, a segment has more tokens than the encoder has positions, or the
            network breaks a rule in the docstring of `Classifier`.

    Example:
        >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> bert = {"model_type": "bert", "intermediate_size": 4} | sizes
        >>> network = PLMCA(config=bert, num_classes=3, segment_length=2).eval()
        >>> output = network(TextInputs.of_ids([[1, 5, 6, 7, 2]]))
        >>> output.readout.shape, torch.allclose(output.readout.sum(dim=-1), torch.ones(1, 3))
        (torch.Size([1, 3, 5]), True)

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
    Records", arXiv 2406.08958, section 3 and appendix A.

    Differs: the layers `value` and `output` have biases, as in the authors' code but not in the paper's formula. In
    the authors' code, the mask of the cross-attention had no effect until 2026. In the published results, classes
    therefore attend to padding, too, as with mask_mode="legacy".
    """

    readout_is_attention: ClassVar[bool] = True
    reads_by_class: ClassVar[bool] = True

    segment_length: int
    segments_at_once: int | None = None  # most segments in one autograd graph; set by `gradients_by_segment`

    def __init__(
        self,
        path: str | None = None,
        num_classes: int = 2,
        multilabel: bool = True,
        *,
        pretrained: bool = True,
        segment_length: int = 128,
        dropout: float | None = 0.2,
        num_layers: int | None = None,
        mask_mode: Literal["correct", "legacy"] = "correct",
        embedding: Embedding = "module",
        config: dict[str, Any] | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        check_num_classes(num_classes, multilabel=multilabel)
        if mask_mode not in ("correct", "legacy"):
            raise ValueError(f"mask_mode is {mask_mode!r}: give 'correct' or 'legacy'")
        settings = read_config(
            path, config, dropout=dropout, num_layers=num_layers, trust_remote_code=trust_remote_code
        )
        own_code = trust_remote_code and has_own_code(settings, AutoModel)
        if type(settings) not in MODEL_MAPPING and not own_code:
            raise ValueError(f"{settings.model_type} is not an encoder of the transformers library")
        options: dict[str, Any] = {"num_layers": num_layers, "trust_remote_code": trust_remote_code}
        if not own_code:
            encoder_class: Any = MODEL_MAPPING[type(settings)]
            if "add_pooling_layer" in inspect.signature(encoder_class.__init__).parameters:
                options["add_pooling_layer"] = False
        loaded = load_transformer(AutoModel, path if pretrained else None, settings, **options)
        super().__init__(loaded.network, embedding)
        if segment_length < 1 or segment_length > (self.max_length or segment_length):
            raise ValueError(
                f"segment_length is {segment_length}: give at least 1, and at most the {self.max_length} positions of "
                f"{settings.model_type}"
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
        if path is not None and pretrained:
            head = (name for name, _ in self.named_parameters() if not name.startswith("transformer."))
            self.weight_gaps = WeightGaps((*loaded.gaps.fresh, *head), loaded.gaps.unread)
        self.segment_length = min(segment_length, 3)  # so that the short texts of the checks have several segments
        self.check_new_contracts()
        self.segment_length = segment_length

    def transformer_call(self, inputs: TextInputs, inputs_embeds: Tensor | None) -> TransformerCall:
        """Returns the transformer's inputs. Each text is divided into segments, and its last segment is padded."""
        num_rows, length = inputs.input_ids.shape
        if self.mask_mode == "correct":
            size = max(min(self.segment_length, length), 1)  # texts shorter than a segment are one segment
            num_segments = max(-(-length // size), 1)
        else:
            # a text whose last segment is full gets one more segment, which is all padding
            size, num_segments = self.segment_length, length // self.segment_length + 1
        return self._segment_call(inputs, inputs_embeds, size, num_segments)

    def _segment_call(
        self, inputs: TextInputs, inputs_embeds: Tensor | None, size: int, num_segments: int
    ) -> TransformerCall:
        """Returns the transformer's inputs for texts [B, T], divided into `num_segments` segments of `size` tokens."""
        num_rows, length = inputs.input_ids.shape
        padding = num_segments * size - length
        padded = inputs.map(lambda tensor: F.pad(tensor, (0, padding)) if tensor.dim() > 1 else tensor)
        if inputs_embeds is not None:
            inputs_embeds = F.pad(inputs_embeds, (0, 0, 0, padding)).reshape(num_rows * num_segments, size, -1)
        arguments = {
            name: value.reshape(num_rows * num_segments, size) for name, value in self.network_inputs(padded).items()
        }
        keep = padded.attention_mask.reshape(num_rows * num_segments, size)
        # tokens never attend to padding. In a segment that is all padding, padding attends to itself, because kernels
        # need at least one attended token in each row
        attended = (keep | ~keep.any(dim=1, keepdim=True)).long()
        return TransformerCall(arguments | {"attention_mask": attended}, inputs_embeds, keep)

    def forward(
        self,
        inputs: TextInputs,
        inputs_embeds: Tensor | None = None,
        *,
        classes: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        output_readout: bool = True,
    ) -> ClassifierOutput:
        """Returns the logits and the readout, which is the attention of each class to the tokens.

        Args:
            inputs: B texts.
            inputs_embeds: [B, T, D], used instead of `embed(inputs)`.
            classes: [B, K] long, the classes for which logits [B, K] and readout [B, K, T] are computed; None for all
                classes.
            output_attentions, output_hidden_states: see Classifier.
            output_readout: whether the readout is needed. If False, the returned readout is empty ([B, 0, T]). With
                "sdpa" attention, the head then uses fused attention, which stores no weights [B, C, T] and has no
                second derivative.
        """
        options = {"output_attentions": output_attentions, "output_hidden_states": output_hidden_states}
        output, columns = self.transformer_output(inputs, inputs_embeds, **options)
        fused = not output_readout and self.attention_implementation != "eager"
        head_output = self.head_output(output, inputs, columns, classes, fused=fused)
        return ClassifierOutput(
            logits=head_output.logits,
            readout=head_output.readout if output_readout else head_output.readout[:, :0],
            attentions=tuple(output.attentions) if output_attentions else None,
            hidden_states=head_output.hidden_states if output_hidden_states else None,
        )

    def head_output(
        self,
        output: Any,
        inputs: TextInputs,
        columns: Tensor | None,
        classes: Tensor | None = None,
        *,
        fused: bool = False,
    ) -> HeadOutput:
        """Returns logits, readout (the attention of classes to tokens) and hidden states.

        If `fused` is True, the readout may be empty ([B, 0, T]), because fused attention returns no weights.
        """
        num_rows, length = inputs.input_ids.shape
        segments = output.hidden_states or (output.last_hidden_state,)  # each [B * N, S, D]
        padded = [state.reshape(num_rows, -1, state.shape[-1]) for state in segments]  # each [B, N * S, D]
        # class attention gives the same logits for any order of tokens, so the states may be in the order of `inputs`
        states = tuple(s[:, :length] if columns is None else take_columns(s[:, :length], columns) for s in padded)
        tokens, keep = states[-1], inputs.attention_mask
        if self.mask_mode == "legacy":
            lengths = inputs.attention_mask.sum(dim=1)
            columns_of_padding, is_padding = last_segment_padding(lengths, segment_length=self.segment_length)
            # a class attends to at most S padding tokens of a text, so only S columns of `padded` are added. If all
            # its N * S columns were added, the largest tensors could be twice as large. `is_padding` masks clamped ones
            padding = take_columns(padded[-1], columns_of_padding.clamp(max=padded[-1].shape[1] - 1))  # [B, S, D]
            tokens, keep = torch.cat([tokens, padding], dim=1), torch.cat([keep, is_padding], dim=1)
        queries = self.class_queries if classes is None else self.class_queries[classes]
        values = self.value(tokens)
        if fused and bool(keep.any(dim=1).all()):  # fused and eager attention differ for texts without tokens
            pooled = fused_class_attention(queries, self.key(tokens), values, keep)
            return HeadOutput(self.head_logits(pooled), pooled.new_zeros(num_rows, 0, length), states)
        scores = class_attention(queries, self.key(tokens), keep)
        # the softmax is never in half precision, in which weights over thousands of tokens would not sum to 1
        weights = scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        readout = weights[..., :length]
        from_padding = None
        if weights.shape[-1] > length:
            from_padding = weights[..., length:].to(values.dtype) @ values[:, length:]
        return HeadOutput(self.logits_of_readout(readout, values[:, :length], from_padding), readout, states)

    def logits_of_readout(self, readout: Tensor, values: Tensor, padding: Tensor | None = None) -> Tensor:
        """Returns logits [B, C] from the readout.

        Args:
            readout: [B, C, T], the attention of each class to the tokens.
            values: [B, T, D], the layer `value` applied to the last hidden state.
            padding: [B, C, D], the attention-weighted sum of values at padding; None if classes ignore padding.
        """
        pooled = readout.to(values.dtype) @ values  # [B, C, D]
        return self.head_logits(pooled if padding is None else pooled + padding)

    def head_logits(self, pooled: Tensor) -> Tensor:
        """Returns logits [B, C]. `pooled` [B, C, D] holds, for each class, its attention-weighted sum of values."""
        return self.output(self.norm(pooled)).squeeze(-1)

    def segment_states(self, segments: TextInputs, embed_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns last hidden states [U, S', D] of segments, and a mask [U, S'] of the states that classes attend to.

        Args:
            segments: U segments, each as a text of at most `segment_length` tokens, padded on the right to S' columns.
                In mask_mode "legacy", S' is always `segment_length`, and only a text's last segment may be shorter.
            embed_mask: bool, of the shape of `segments.input_ids`; where it is False, embeddings are set to 0.
        """
        embeds = None if embed_mask is None else self.embed(segments) * embed_mask.unsqueeze(-1)
        legacy = self.mask_mode == "legacy"
        size = self.segment_length if legacy else segments.input_ids.shape[1]
        call = self._segment_call(segments, embeds, size, 1)
        states = self.run(call, output_attentions=False, output_hidden_states=False).last_hidden_state
        keep = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        return states, keep if legacy else segments.attention_mask

    def version_logits(self, inputs: TextInputs, versions: Versions, classes: Tensor, **options: Any) -> Tensor | None:
        """Returns the logits [R, K] for R versions of texts. A version has some tokens erased; see `ForVersions`.

        Versions share encoded segments. Returns None in training mode, or if a text's classes need too much memory.
        """
        return None if self.training else logits_by_segment(self, inputs, versions, classes, **options)

    def segment_graph(
        self, inputs: TextInputs, embeds: Tensor, classes: Tensor | None = None, *, output_readout: bool = True
    ) -> SegmentGraph | None:
        """Returns a SegmentGraph, which saves memory, or None outside the context `gradients_by_segment`."""
        if self.segments_at_once is None:
            return None
        number = self.segments_at_once
        return SegmentGraph(self, inputs, embeds, classes, output_readout=output_readout, segments_at_once=number)

    def head_layers(self) -> list[Callable[[Tensor], Tensor]]:
        if self.mask_mode == "legacy":
            raise ValueError(
                "mask_mode is 'legacy', so classes also attend to padding, and a part of the logits belongs to no "
                "token: decompose a network with mask_mode 'correct'"
            )
        # rows of the readout sum to 1, so `value`, including its bias, can be applied after averaging the states
        return [self.value, self.norm, self.output]
