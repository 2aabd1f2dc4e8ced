"""The examples of a batch before they are padded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from lightning_xai.data.corpora.token_table import TokenTable
from lightning_xai.data.encoded import Encoded

Labels = int | list[int]  # the class, or the list of classes if multi-label


@dataclass(frozen=True)
class Item:
    """One tokenized example with its labels.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> Item(7, VocabularyEncoder(words=95).encode({"text": "w1"}), labels=1).encoded.input_ids.tolist()
        [1, 6, 2]
    """

    index: int  # the example's row number in its split
    encoded: Encoded
    labels: Labels


class Items(Sequence[Item]):
    """Several examples in flat arrays. Indexing with a position returns an Item.

    Args:
        indices: [B] the examples' row numbers in their split.
        table: tokens of the examples; offsets may be missing.
        labels: labels of each example.
        encoded: function that returns the tokens of the example at a position, offsets included.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> encoded = VocabularyEncoder(words=95).encode({"text": "w1"})
        >>> items = Items.of([Item(7, encoded, labels=1)])
        >>> items.table.input_ids.tolist(), items[0].index
        ([1, 6, 2], 7)
    """

    def __init__(
        self, indices: np.ndarray, table: TokenTable, labels: Sequence[Labels], encoded: Callable[[int], Encoded]
    ) -> None:
        self.indices = indices
        self.table = table
        self.labels = labels
        self._encoded = encoded

    @classmethod
    def of(cls, items: Sequence[Item]) -> Items:
        """Returns the same examples in flat arrays."""
        if isinstance(items, Items):
            return items
        table = TokenTable.of([item.encoded for item in items])
        indices = np.array([item.index for item in items], dtype=np.int64)
        return cls(indices, table, [item.labels for item in items], table.encoded)

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, position: int) -> Item: ...
    @overload
    def __getitem__(self, position: slice) -> list[Item]: ...
    def __getitem__(self, position: int | slice) -> Item | list[Item]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        place = range(len(self))[position]  # raises IndexError beyond the last example
        return Item(int(self.indices[place]), self._encoded(place), self.labels[place])
