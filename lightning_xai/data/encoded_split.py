"""The tokenized examples of a split, and the random choice of rows if their number is limited."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from lightning_xai.data.collate import Item
from lightning_xai.data.encoding import Encoded


def choose_rows(num_rows: int, max_rows: int | None, seed: int | Sequence[int]) -> np.ndarray:
    """Returns the ascending numbers of `max_rows` random rows. None, or a number that is too large, selects all rows.

    Example:
        >>> choose_rows(3, None, seed=0).tolist()
        [0, 1, 2]
        >>> len(choose_rows(100, 10, seed=0))
        10
    """
    if max_rows is None or max_rows >= num_rows:
        return np.arange(num_rows)
    return np.sort(np.random.default_rng(seed).permutation(num_rows)[:max_rows])


class EncodedSplit(Dataset[list[Item]]):
    """The tokenized examples of one split. Indexing with a position or a list of positions returns a list of Items.

    Args:
        examples: the examples, with the columns of TextSource.
        encoded: the tokens of each example.
        index: [number of examples] ascending; the number of each example's row in the full split. Some rows may be
            left out.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> examples = [{"text": "w1", "labels": 0}, {"text": "w2 w3", "labels": 1}]
        >>> split = EncodedSplit(examples, VocabularyEncoder(words=95).encode_batch(examples), np.array([3, 7]))
        >>> split.lengths.tolist(), split.position(7)
        ([3, 4], 1)
    """

    def __init__(self, examples: Sequence[dict[str, Any]], encoded: list[Encoded], index: np.ndarray) -> None:
        self.examples = examples
        self.encoded = encoded
        self.index = index
        self.lengths = np.array([len(e) for e in encoded])
        self.unknown_tokens_are_reported = False

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, positions: int | list[int]) -> list[Item]:
        # Lightning's overfit_batches replaces our sampler by a sequential sampler, which yields single integers
        positions = [positions] if isinstance(positions, int) else positions
        return [Item(int(self.index[i]), self.encoded[i], self.examples[i]["labels"]) for i in positions]

    def position(self, index: int) -> int:
        """Returns the position of the example with the given index.

        Raises:
            ValueError: no example has that index.
        """
        position = int(np.searchsorted(self.index, index))
        if position == len(self.index) or self.index[position] != index:
            raise ValueError(f"example {index} is not in this split, or was left out by max_examples")
        return position

    def hash(self) -> str:
        """Returns 12 hexadecimal digits: a hash of the examples' indices and token ids, in their order."""
        digest = hashlib.sha256(self.index.astype("<i8").tobytes())
        for example in self.encoded:
            digest.update(example.input_ids.astype("<i4").tobytes() + b"\0")
        return digest.hexdigest()[:12]

    def summary(self) -> dict[str, Any]:
        """Returns facts about the tokens.

        `examples` is the number of examples, `mean_tokens` the mean number of tokens in an example, and
        `truncated_fraction` the fraction of examples that were truncated. `evidence_kept_fraction` is the fraction of
        evidence characters kept by truncation, averaged over the examples with evidence. It is None if no example
        has evidence.
        """
        kept = [e.evidence_kept for e in self.encoded if e.evidence_kept is not None]
        return {
            "examples": len(self),
            "mean_tokens": float(self.lengths.mean()),
            "truncated_fraction": float(np.mean([e.truncated for e in self.encoded])),
            "evidence_kept_fraction": float(np.mean(kept)) if kept else None,
        }
