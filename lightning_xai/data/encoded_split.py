"""The tokenized examples of a split."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from lightning_xai.data.collate import Item
from lightning_xai.data.encoding import Encoded


class EncodedSplit(Dataset):
    """The tokenized examples of one split; indexed by a list of positions, or by one.

    Args:
        examples: the rows, with the columns of TextSource.
        encoded: their tokens.
        index: [rows] ascending, each example's row in the whole split.
    """

    def __init__(self, examples: Sequence[dict[str, Any]], encoded: list[Encoded], index: np.ndarray) -> None:
        self.examples = examples
        self.encoded = encoded
        self.index = index
        self.lengths = np.array([len(e) for e in encoded])

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, positions: int | list[int]) -> list[Item]:
        # Lightning's overfit_batches puts a sequential sampler in the place of ours, which yields integers
        positions = [positions] if isinstance(positions, int) else positions
        return [Item(int(self.index[i]), self.encoded[i], self.examples[i]["labels"]) for i in positions]

    def position(self, index: int) -> int:
        """Returns where the example with the given row in the whole split stands here."""
        position = int(np.searchsorted(self.index, index))
        if position == len(self.index) or self.index[position] != index:
            raise ValueError(f"example {index} is not in this split, or left out by max_examples")
        return position

    def hash(self) -> str:
        """Returns 12 hex digits that tell these examples' tokens from others, or from the same in another order."""
        digest = hashlib.sha256(self.index.astype("<i8").tobytes())
        for example in self.encoded:
            digest.update(example.input_ids.astype("<i4").tobytes() + b"\0")
        return digest.hexdigest()[:12]
