"""Computes logits of many versions of long texts, and encodes each distinct segment of the versions only once."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from lightning_xai.functional.erasure.erase import Erasure, erase
from lightning_xai.functional.erasure.evaluate import Versions
from lightning_xai.functional.erasure.segment_counts import count_segments
from lightning_xai.functional.erasure.version_segments import (
    SegmentedVersions,
    segment_columns,
    segmented_versions,
    version_blocks,
)
from lightning_xai.functional.network.chunking import packed_rows
from lightning_xai.functional.seeds import example_indices
from lightning_xai.models.segments.segment_attention import (
    SegmentAttention,
    attend,
    empty_segment_attention,
    segment_attention,
)
from lightning_xai.types import ClassifierOutput, TextInputs

ATTENTION_FLOATS = 2**26  # limits memory: largest number of floats in a `SegmentAttention`


class SegmentedNetwork(Protocol):
    """The part of PLMCA's interface that is needed to compute logits from separately encoded segments."""

    segment_length: int
    key: torch.nn.Linear
    value: torch.nn.Linear

    @property
    def mask_mode(self) -> str: ...

    @property
    def class_queries(self) -> Tensor: ...

    def segment_states(self, segments: TextInputs, embed_mask: Tensor | None = None) -> tuple[Tensor, Tensor]: ...

    def head_logits(self, pooled: Tensor) -> Tensor: ...

    def __call__(self, inputs: TextInputs) -> ClassifierOutput: ...


@torch.no_grad()
def logits_by_segment(
    network: SegmentedNetwork,
    inputs: TextInputs,
    versions: Versions,
    classes: Tensor,
    *,
    erasure: Erasure,
    pad_id: int,
    chunk_size: int | None = None,
) -> Tensor | None:
    """Returns the logits [R, K] of R versions of texts, each for its own K classes; None if memory is too small.

    A version is a text with some tokens erased. PLM-CA encodes each segment of a text separately. Most segments of a
    version usually occur in other versions, too, and are encoded only once. A forward pass may contain segments of
    several versions. For each class, the token states of a segment are summed, weighted by the attention of the class.
    The sums of a version's segments are then combined into its logits, in at least float32. The result is None if the
    sums for one version (all requested classes of a text, times the version's segments) would need too much memory.

    Args:
        network: a PLMCA in eval mode.
        inputs: B unerased texts.
        versions: R versions, at least one.
        classes: [R, K] long, the classes of each version, on the CPU.
        erasure: how tokens are erased, see `erase`.
        pad_id: id of the padding token.
        chunk_size: a forward pass encodes at most chunk_size * N segments, where N is the largest number of segments of
            a version; None lets the device decide.

    Example:
        >>> from lightning_xai.models.plm_ca import PLMCA
        >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> bert = {"model_type": "bert", "intermediate_size": 4} | sizes
        >>> network = PLMCA(config=bert, num_classes=3, segment_length=2).eval()
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 7, 2]], special_ids=[1, 2])
        >>> whole = Versions(torch.tensor([0]), torch.ones(1, 5).bool())
        >>> logits = logits_by_segment(network, inputs, whole, torch.tensor([[2, 0]]), erasure="mask", pad_id=0)
        >>> torch.allclose(logits, network(inputs).logits[:, [2, 0]], atol=1e-6)
        True
    """
    example, keep = versions.example.cpu(), versions.keep.cpu()
    attended = inputs.attention_mask.cpu()
    texts = _Texts(network, inputs, attended, example, (inputs.token_mask.cpu() & attended)[example] & ~keep, erasure)
    explained, column = _explained_classes(example, classes, len(inputs))
    segmented = texts.segmented()
    numbers_per_segment = explained.shape[1] * (network.class_queries.shape[1] + 2)
    most_segments = ATTENTION_FLOATS // numbers_per_segment
    if most_segments <= segmented.ids.shape[1]:
        return None  # even the sums for the segments of a single version would need too much memory
    logits: Tensor | None = None
    blocks = list(version_blocks(segmented.ids, most_segments))
    count_segments(example_indices(inputs), example, segmented.ids, blocks)
    for rows in blocks:
        attention, ids = texts.attention(
            segmented, segmented.ids[rows], explained, pad_id=pad_id, chunk_size=chunk_size
        )
        if attention is not None:
            logits = attention.largest.new_empty(classes.shape) if logits is None else logits
            logits[rows] = _logits_of_attention(network, attention, ids, column[rows])
    empty = (segmented.ids < 0).all(dim=1).nonzero().flatten()
    if len(empty):  # texts without tokens all have the same logits
        text, kept = (rows[empty[:1]].to(inputs.device) for rows in (example, keep))
        without, _ = erase(inputs[text], kept, erasure, pad_id=pad_id)
        of_empty = network(without.trim()).logits[0]
        logits = of_empty.new_empty(classes.shape) if logits is None else logits
        logits[empty] = of_empty[classes[empty].to(logits.device)].to(logits.dtype)
    return logits


class _Texts:
    """R versions of texts (each with some tokens erased), and the network that encodes the versions' segments."""

    def __init__(
        self,
        network: SegmentedNetwork,
        inputs: TextInputs,
        attended: Tensor,
        example: Tensor,
        erased: Tensor,
        erasure: Erasure,
    ) -> None:
        self.network, self.inputs = network, inputs
        self.attended, self.example, self.erased, self.erasure = attended, example, erased, erasure

    def segmented(self) -> SegmentedVersions:
        return segmented_versions(
            self.attended,
            self.example,
            self.erased,
            segment_length=self.network.segment_length,
            erasure=self.erasure,
            padding_segment=self.network.mask_mode == "legacy",
        )

    def attention(
        self, segmented: SegmentedVersions, ids: Tensor, explained: Tensor, *, pad_id: int, chunk_size: int | None
    ) -> tuple[SegmentAttention | None, Tensor]:
        """Encodes each distinct segment in `ids` once. Returns a SegmentAttention, and the segments' indices in it.

        The SegmentAttention holds the attention of the classes to the tokens of each distinct segment; it is None if
        there are no segments. The indices [R, N] are -1 where `ids` is -1.

        Args:
            segmented: the segments of all versions.
            ids: [R, N] long, the segments of some versions, padded with -1.
            explained: [B, K'] long, the classes whose attention is computed for each text.
            pad_id, chunk_size: as for `logits_by_segment`.
        """
        needed = ids.unique()
        needed = needed[needed >= 0]
        longest_first = needed[segmented.length[needed].argsort(descending=True, stable=True)]
        number = torch.full((len(segmented.length) + 1,), -1)  # the last entry is for the id -1
        number[longest_first] = torch.arange(len(longest_first))
        # class k attends to a token in proportion to exp(query_k W_key state)
        queries = self.network.class_queries[explained.to(self.inputs.device)] @ self.network.key.weight  # [B, K', D]
        at_once = None if chunk_size is None else chunk_size * ids.shape[1]
        widths = torch.full_like(longest_first, self.network.segment_length)
        if self.network.mask_mode == "correct":
            widths = segmented.length[longest_first]
        attention: SegmentAttention | None = None
        for rows in packed_rows(widths, at_once, self.inputs.device, differentiated=False):
            segments = longest_first[rows]
            text = self.example[segmented.version[segments]].to(self.inputs.device)
            states, keep = self.network.segment_states(*self._segments(segmented, segments, pad_id))
            part = segment_attention(queries[text], states, keep)
            if attention is None:
                attention = empty_segment_attention(part, len(longest_first))
            attention.largest[rows], attention.total[rows], attention.weighted[:, rows] = part
        return attention, number[ids]

    def _segments(
        self, segmented: SegmentedVersions, segments: Tensor, pad_id: int
    ) -> tuple[TextInputs, Tensor | None]:
        """Erases tokens of n segments. Returns the segments as inputs [n, S'], and the embed_mask of `erase`.

        S' is the number of tokens of the longest segment."""
        columns, keep = segment_columns(
            segmented,
            segments,
            self.attended,
            self.example,
            self.erased,
            segment_length=self.network.segment_length,
            erasure=self.erasure,
        )
        version = segmented.version[segments]
        erased = self.erased[version].gather(1, columns) & keep
        device = self.inputs.device
        row, columns, keep, erased = (t.to(device) for t in (self.example[version].unsqueeze(1), columns, keep, erased))
        copies = self.inputs.map(lambda t: t[row, columns] if t.dim() > 1 else t[row.squeeze(1)])
        copies = replace(copies, attention_mask=keep, token_mask=copies.token_mask & keep)
        if self.erasure == "delete":
            return copies, None  # nothing is left to erase: deleted tokens are in no segment
        return erase(copies, ~erased, self.erasure, pad_id=pad_id)


def _explained_classes(example: Tensor, classes: Tensor, num_texts: int) -> tuple[Tensor, Tensor]:
    """Returns the classes [B, K'] that each text's versions request, and the columns [R, K] where `classes` stand.

    A column is the index of a version's class among the K' classes of its text. K' is the largest number of classes
    that are requested for a text. If fewer are requested for a text, its last columns hold any other classes.
    """
    wanted = torch.zeros(num_texts, int(classes.max()) + 1, dtype=torch.bool)
    wanted[example.unsqueeze(1), classes] = True
    num_explained = int(wanted.sum(dim=1).max())
    explained = wanted.byte().argsort(dim=1, descending=True, stable=True)[:, :num_explained]
    return explained, (wanted.cumsum(dim=1) - 1)[example.unsqueeze(1), classes]


def _logits_of_attention(network: SegmentedNetwork, attention: SegmentAttention, ids: Tensor, column: Tensor) -> Tensor:
    """Returns logits [R, K] of versions, on the device of the network.

    Args:
        network: the network.
        attention: the weighted sums of each segment's token states, for K' classes.
        ids: [R, N] long, the segments of each version, as positions in `attention`, padded with -1.
        column: [R, K] long, the position of each requested class among the K' classes.
    """
    device = attention.largest.device
    logits = attention.largest.new_zeros(column.shape)
    for k in column.unique().tolist():
        version, position = (column == k).nonzero(as_tuple=True)
        states = attend(attention, ids[version].to(device), k)
        values = network.value(states.to(network.value.weight.dtype))
        logits[version.to(device), position.to(device)] = network.head_logits(values).to(logits.dtype)
    return logits
