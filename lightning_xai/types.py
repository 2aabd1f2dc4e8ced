"""Data types that the modules of the package pass to each other.

Letters in shapes:
    B: number of examples
    T: number of tokens
    K: number of explained classes per example
    C: number of classes
    D: number of embedding dimensions
    V: number of token ids in the vocabulary
    L: number of layers
    H: number of attention heads
    N: number of segments per text, which is 1 unless the model divides texts into segments
    S: number of tokens per segment, with N * S >= T
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

Self = TypeVar("Self", bound="TensorFields")
Rows = slice | list[int] | Tensor


@dataclass(frozen=True)
class TensorFields:
    """Base class of frozen dataclasses whose fields are tensors. The first dimension of every tensor is the batch.

    A field may also be None or another TensorFields. All methods leave a field that is None unchanged.

    Example:
        >>> @dataclass(frozen=True)
        ... class Pair(TensorFields):
        ...     left: Tensor  # [B]
        ...     right: Tensor | None = None  # [B]
        >>> pair = Pair(torch.tensor([1, 2, 3]))
        >>> pair[1:]
        Pair(left=tensor([2, 3]), right=None)
        >>> pair.repeat_interleave(2).left.tolist()
        [1, 1, 2, 2, 3, 3]
    """

    def map(self: Self, function: Callable[[Tensor], Tensor]) -> Self:
        """Returns a copy with `function` applied to every tensor, including tensors in nested TensorFields."""
        changed: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                changed[field.name] = function(value)
            elif isinstance(value, TensorFields):
                changed[field.name] = value.map(function)
        return replace(self, **changed)

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Returns a copy with every tensor moved or cast by `Tensor.to`."""
        return self.map(lambda tensor: tensor.to(*args, **kwargs))

    def pin_memory(self: Self) -> Self:
        """Returns a copy in page-locked memory. A DataLoader with `pin_memory=True` calls this method."""
        return self.map(torch.Tensor.pin_memory)

    def __getitem__(self: Self, rows: Rows) -> Self:
        """Returns the examples selected by a slice, a list of row indices, or a boolean or long tensor.

        A single integer is not allowed, because the result would have no batch dimension.
        """
        return self.map(lambda tensor: tensor[rows])

    def repeat_interleave(self: Self, repeats: int | Tensor) -> Self:
        """Returns a copy that has each row `repeats` times in succession.

        `repeats` is one number for all rows, or a tensor [B] with one number for each row.
        """
        return self.map(lambda tensor: tensor.repeat_interleave(repeats, dim=0))


@dataclass(frozen=True)
class TextInputs(TensorFields):
    """The tokenized texts that models and attribution methods receive. They hold no labels, so methods cannot use any.

    `TextInputs.of_ids` builds TextInputs from token ids.

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 6], [1, 7]], special_ids=[1])
        >>> len(inputs), inputs[[1]].baseline_ids.tolist()  # the fill token is 0
        (2, [[1, 0, 0]])
    """

    input_ids: Tensor  # [B, T] long, ids of the tokens
    attention_mask: Tensor  # [B, T] bool, False at padding
    token_mask: Tensor  # [B, T] bool, True where a token may be explained and erased
    special_tokens_mask: Tensor  # [B, T] bool, True at special tokens and padding
    baseline_ids: Tensor  # [B, T] long, input_ids with the fill token (see `of_ids`) wherever token_mask is True
    token_type_ids: Tensor | None = None  # [B, T] long, which text of a pair each token belongs to
    word_ids: Tensor | None = None  # [B, T] long, index of the word that each token belongs to; -1 outside words
    index: Tensor | None = None  # [B] long, row number of each example in its split; random methods use it as a seed
    prompt_mask: Tensor | None = None  # [B, T] bool, True at the prompt's tokens, which are neither erased nor zeroed

    @classmethod
    def of_ids(
        cls, rows: Sequence[Sequence[int]], *, pad_id: int = 0, fill_id: int = 0, special_ids: Sequence[int] = ()
    ) -> TextInputs:
        """Returns TextInputs with the given token ids, padded on the right. `index` numbers the examples 0, 1, ...

        Args:
            rows: the token ids of each text.
            pad_id: id of the padding token.
            fill_id: id of the fill token, which replaces erased tokens.
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
        """The device of the tensors."""
        return self.input_ids.device

    def trim(self) -> TextInputs:
        """Returns the inputs without the columns at the end that are padding in every row.

        If a row has padding before its tokens, the inputs may be returned unchanged.

        Example:
            >>> TextInputs.of_ids([[1, 5, 6], [1, 7]])[1:].trim().input_ids.tolist()
            [[1, 7]]
        """
        length = max(int(self.attention_mask.sum(dim=1).max()), 1) if len(self) else 1
        if self.attention_mask[:, length:].any():  # some padding is on the left, so nothing is cut
            return self
        return self.map(lambda tensor: tensor[:, :length] if tensor.dim() > 1 else tensor)


@dataclass(frozen=True)
class Attribution(TensorFields):
    """Token scores for the explained classes, given by an attribution method or by humans (a rationale).

    The scores of a rationale are in [0, 1].

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 6]], special_ids=[1])
        >>> one_class = torch.tensor([[2]])
        >>> Attribution(torch.tensor([[[0.0, 0.5, -1.0]]]), one_class, one_class > 0, inputs.token_mask).scores.shape
        torch.Size([1, 1, 3])
    """

    scores: Tensor  # [B, K, T], may be negative and need not be normalized; 0 at padding
    targets: Tensor  # [B, K] long, the class that each row of scores explains
    target_mask: Tensor  # [B, K] bool, False at padding of `targets` (an example may have fewer than K classes)
    token_mask: Tensor  # [B, T] bool, True where a token is ranked and may be erased

    @classmethod
    def of_scores(cls, rows: Sequence[Sequence[Sequence[float]]], token_mask: Tensor) -> Attribution:
        """Returns an attribution with the given scores for classes 0 to K - 1.

        Args:
            rows: scores [B, K, T] as nested lists.
            token_mask: [B, T] bool, the tokens that may be ranked and erased.

        Example:
            >>> attribution = Attribution.of_scores([[[0.5, 2.0], [1.0, -1.0]]], torch.tensor([[True, True]]))
            >>> attribution.targets.tolist(), attribution.scores[0, 1].tolist()
            ([[0, 1]], [1.0, -1.0])
        """
        scores = torch.tensor(rows)
        targets = torch.arange(scores.shape[1]).expand(scores.shape[:2])
        return cls(scores, targets, torch.ones_like(targets, dtype=torch.bool), token_mask)


@dataclass(frozen=True)
class Batch(TensorFields):
    """Encoded examples with their labels.

    Example:
        >>> batch = Batch(TextInputs.of_ids([[1, 5], [1, 6]]), torch.tensor([0, 1]))
        >>> len(batch), batch[1:].index.tolist()
        (2, [1])
    """

    inputs: TextInputs  # `inputs.index` must not be None
    labels: Tensor  # [B] long, or [B, C] float if multi-label
    rationale: Attribution | None = None
    evidence_cut: Tensor | None = None  # [B, C] int, number of evidence tokens if truncation cut all of them, else 0

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def index(self) -> Tensor:
        """The row number [B] long of each example in its split. Stores and metrics identify examples by this number."""
        assert self.inputs.index is not None, "the inputs of a batch need an index: each example's row in its split"
        return self.inputs.index


@dataclass(frozen=True)
class ClassifierOutput:
    """The results of a forward pass. No tensor is detached from the autograd graph.

    Example:
        >>> output = ClassifierOutput(logits=torch.zeros(1, 2), readout=torch.tensor([[[1.0, 0.0, 0.0]]]))
        >>> output.readout.sum(dim=-1).tolist()
        [[1.0]]
    """

    logits: Tensor  # [B, C], or [B, K] if only K classes were requested
    readout: Tensor  # [B, 1 or C or K, T], the head's weights on token states; usually, they sum to 1 over T
    attentions: tuple[Tensor, ...] | None = None  # L tensors [B*N, H, S, S], exactly as the encoder computed them
    hidden_states: tuple[Tensor, ...] | None = None  # L + 1 tensors [B, T, D]: embeddings, then states after each layer


class Passes(NamedTuple):
    """The number of forward passes and the number of backward passes that a method needs for one example.

    Example:
        >>> Passes(forward=50, backward=50).backward
        50
    """

    forward: float
    backward: float


class Predict(Protocol):
    """A function that computes the model's probabilities, with gradients off. Metrics call it instead of the model.

    Example:
        >>> def coin(inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        ...     return torch.full((len(inputs), 2), 0.5)
        >>> predict: Predict = coin
        >>> predict(TextInputs.of_ids([[1, 5]])).tolist()
        [[0.5, 0.5]]
    """

    def __call__(self, inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        """Returns probabilities [B, C]. Embeddings are set to zero where `embed_mask` [B, T] is False."""


class Selector(ABC):
    """Base class of objects that rate attributions, so that a method can choose the best of several candidates.

    Attribution metrics are selectors. `AMLAttribution`, for example, chooses among the scores of its steps.

    Example:
        >>> class Shortest(Selector):
        ...     name, higher_is_better = "shortest", False
        ...     def require_selection(self): pass
        ...     def passes(self, num_units, num_methods): return 0.0
        ...     def rate(self, attribution, batch, network): return (attribution.scores > 0).sum(dim=-1).float()
        >>> inputs = TextInputs.of_ids([[5, 6]])
        >>> attribution = Attribution.of_scores([[[1.0, 2.0], [0.0, 3.0]]], inputs.token_mask)
        >>> Shortest().rate(attribution, Batch(inputs, torch.tensor([0])), network=None).tolist()
        [[2.0, 1.0]]
    """

    name: str
    higher_is_better: Any  # bool, or None as in torchmetrics; if None, `require_selection` raises an error

    def settings(self) -> dict[str, Any]:
        """Returns what distinguishes selectors of this class; it is stored with the scores that a selector chose."""
        return {"class": type(self).__name__}

    @abstractmethod
    def require_selection(self) -> None:
        """Raises ValueError if this selector cannot choose among attributions, for example because it uses labels."""

    @abstractmethod
    def passes(self, num_units: int, num_methods: int) -> float:
        """Returns the approximate number of forward passes that `rate` needs for all attributions of one example.

        Args:
            num_units: number of units of the example.
            num_methods: number of methods whose attributions are rated.
        """

    @abstractmethod
    def rate(self, attribution: Attribution, batch: Batch, network: Any) -> Tensor:
        """Returns a value [B, K] float64 that rates the scores of each example and class; NaN where it is undefined."""
