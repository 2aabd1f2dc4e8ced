"""Value types that flow through the suite.

Shape legend: B examples, T tokens, K explained classes per example, C classes, D embedding, V vocabulary, L layers,
H heads, N segments, S tokens per segment (N * S >= T; N = 1 unless the model segments).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

Self = TypeVar("Self", bound="TensorFields")


class TensorFields:
    """What every batch-first dataclass of tensors can do; None fields stay None."""

    def map(self: Self, function: Callable[[Tensor], Tensor]) -> Self:
        """Returns a copy with `function` applied to every tensor, nested ones included."""
        changed = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                changed[field.name] = function(value)
            elif isinstance(value, TensorFields):
                changed[field.name] = value.map(function)
        return replace(self, **changed)

    def to(self: Self, *args, **kwargs) -> Self:
        return self.map(lambda tensor: tensor.to(*args, **kwargs))

    def pin_memory(self: Self) -> Self:
        return self.map(torch.Tensor.pin_memory)

    def __getitem__(self: Self, rows) -> Self:
        """Returns the given rows; `rows` is a slice, a list, or a boolean or long tensor (never an integer)."""
        return self.map(lambda tensor: tensor[rows])

    def repeat_interleave(self: Self, repeats: int | Tensor) -> Self:
        """Returns each row repeated `repeats` times, copies of one row side by side."""
        return self.map(lambda tensor: tensor.repeat_interleave(repeats, dim=0))


@dataclass(frozen=True)
class TextInputs(TensorFields):
    """All that a model or an attribution may see: no labels, so no leak."""

    input_ids: Tensor  # [B, T] long
    attention_mask: Tensor  # [B, T] bool, False at padding
    token_mask: Tensor  # [B, T] bool, True where a token may be explained and erased
    special_tokens_mask: Tensor  # [B, T] bool
    baseline_ids: Tensor  # [B, T] long, input_ids with token_mask tokens replaced by the fill token
    token_type_ids: Tensor | None = None  # [B, T] long
    word_ids: Tensor | None = None  # [B, T] long, -1 outside words
    index: Tensor | None = None  # [B] long, row in its split: seeds random methods and keys every store

    @classmethod
    def of_ids(
        cls, rows: Sequence[Sequence[int]], *, pad_id: int = 0, fill_id: int = 0, special_ids: Sequence[int] = ()
    ) -> TextInputs:
        """Returns the inputs of texts given as token ids, padded on the right; their indices count from 0.

        Args:
            rows: the ids of each text.
            pad_id: id of the padding token.
            fill_id: id that stands for an erased token.
            special_ids: ids of special tokens, which are neither explained nor erased.

        Example:
            >>> inputs = TextInputs.of_ids([[1, 5, 6], [1, 7]], special_ids=[1])
            >>> inputs.input_ids.tolist(), inputs.token_mask.tolist()
            ([[1, 5, 6], [1, 7, 0]], [[False, True, True], [False, True, False]])
        """
        length = max((len(row) for row in rows), default=0)
        input_ids = torch.tensor([[*row, *[pad_id] * (length - len(row))] for row in rows], dtype=torch.long)
        attention_mask = torch.arange(length) < torch.tensor([[len(row)] for row in rows])
        special = torch.isin(input_ids, torch.tensor(list(special_ids), dtype=torch.long)) | ~attention_mask
        return cls(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_mask=~special,
            special_tokens_mask=special,
            baseline_ids=input_ids.where(special, fill_id),
            index=torch.arange(len(rows)),
        )

    def __len__(self) -> int:
        return self.input_ids.shape[0]

    @property
    def device(self) -> torch.device:
        return self.input_ids.device

    def trim(self) -> TextInputs:
        """Returns the same rows without the columns that are padding in all of them."""
        length = max(int(self.attention_mask.sum(dim=1).max()), 1) if len(self) else 1
        if self.attention_mask[:, length:].any():  # padding is not on the right, so columns cannot be cut
            return self
        return self.map(lambda tensor: tensor[:, :length] if tensor.dim() > 1 else tensor)


@dataclass(frozen=True)
class Attribution(TensorFields):
    """Token scores for chosen classes, by a method or by a human: a rationale has scores in [0, 1]."""

    scores: Tensor  # [B, K, T] signed, raw, 0 at padding
    targets: Tensor  # [B, K] long, the class that each row explains
    target_mask: Tensor  # [B, K] bool, False where K is padding
    token_mask: Tensor  # [B, T] bool, what rankings and erasures range over


@dataclass(frozen=True)
class Batch(TensorFields):
    """Encoded examples with their labels."""

    inputs: TextInputs  # inputs.index is always set
    labels: Tensor  # [B] long, or [B, C] float if multi-label
    rationale: Attribution | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def index(self) -> Tensor:
        """[B] row in its split: the key of every store and of every distributed metric."""
        return self.inputs.index


@dataclass(frozen=True)
class ClassifierOutput:
    """What a forward pass yields, all of it in the graph."""

    logits: Tensor  # [B, C]
    readout: Tensor  # [B, 1 or C, T], rows sum to 1: the weights with which the head reads token states
    attentions: tuple[Tensor, ...] | None = None  # L x [B*N, H, S, S], the encoder's own tensors, not reshaped
    hidden_states: tuple[Tensor, ...] | None = None  # (L+1) x [B, T, D]


class Passes(NamedTuple):
    """Passes through the network that a method needs for one example."""

    forward: float
    backward: float


class Predict(Protocol):
    """The explained model as erasure metrics see it: class probabilities without a gradient."""

    def __call__(self, inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        """Returns probabilities [B, C]; embeddings are zeroed where `embed_mask` [B, T] is False."""
        ...
