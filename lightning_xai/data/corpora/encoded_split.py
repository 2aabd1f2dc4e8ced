"""The tokenized examples of a split."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
from torch.utils.data import Dataset

from lightning_xai.data.batches.items import Items, Labels
from lightning_xai.data.corpora.corpus import Corpus
from lightning_xai.data.encoded import Encoded
from lightning_xai.data.removal import StoredErasures

Value = TypeVar("Value")


class EncodedSplit(Dataset[Items]):
    """The tokenized examples of one split. Indexing with a position or a list of positions returns Items.

    The examples stay in the memory maps of a corpus. If the split is copied to another process, that process opens the
    maps again.

    Args:
        corpus: the encoded rows.
        index: [number of examples] the examples' row numbers in the full split, ascending; by default, all rows of the
            corpus.
        erasures: tokens to remove whenever an example is read; None to remove none.
        lengths: [number of examples] number of tokens of each example after erasure; None if nothing is erased.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from lightning_xai.data.corpora.cache import write_corpus
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> examples = [{"text": "w1", "labels": 0}, {"text": "w2 w3", "labels": 1}]
        >>> folder = Path(tempfile.mkdtemp(), "corpus")
        >>> corpus = write_corpus(folder, examples, VocabularyEncoder(words=95), index=np.array([3, 7]))
        >>> split = EncodedSplit(corpus)
        >>> split.lengths.tolist(), split.position(7)
        ([3, 4], 1)
    """

    def __init__(
        self,
        corpus: Corpus,
        index: np.ndarray | None = None,
        erasures: StoredErasures | None = None,
        lengths: np.ndarray | None = None,
    ) -> None:
        self.corpus = corpus
        self.erasures = erasures
        # [number of examples] the examples' rows in the corpus; None if all rows are used
        self._rows: np.ndarray | None = None
        if index is not None and len(index) < len(corpus):
            self._rows = np.searchsorted(corpus.index, index).astype(np.int32)
        self._lengths = lengths
        self.unknown_tokens_are_reported = False

    def __len__(self) -> int:
        return len(self.corpus) if self._rows is None else len(self._rows)

    def __getitem__(self, positions: int | Sequence[int]) -> Items:
        # Lightning's overfit_batches replaces our sampler by a SequentialSampler, which yields single integers
        rows = self._corpus_rows([positions] if isinstance(positions, int) else positions)
        index, table = self.corpus.index[rows], self.corpus.take(rows)
        if self.erasures is not None:
            table = self.erasures.applied(table, index)
        return Items(index, table, self.corpus.labels(rows), lambda i: self._encoded(int(rows[i])))

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each example, shape [number of examples]."""
        return self._of_rows(self.corpus.lengths) if self._lengths is None else self._lengths

    @property
    def index(self) -> np.ndarray:
        """The row number of each example, shape [number of examples] in the full split, ascending."""
        return self.corpus.index if self._rows is None else self.corpus.index[self._rows]

    @property
    def encoded(self) -> Sequence[Encoded]:
        """The tokens of each example. An example's tokens are read when this sequence is indexed."""
        return Lazy(len(self), lambda position: self._encoded(int(self._corpus_rows([position])[0])))

    @property
    def examples(self) -> Sequence[dict[str, Any]]:
        """Each example with the columns of TextSource. An example is read when this sequence is indexed."""
        return Lazy(len(self), lambda position: self.corpus.example(int(self._corpus_rows([position])[0])))

    def labels(self, positions: Sequence[int] | np.ndarray) -> list[Labels]:
        """Returns the labels of the examples at the given positions."""
        return self.corpus.labels(self._corpus_rows(positions))

    def classes(self) -> np.ndarray:
        """Returns the indices of the classes that occur as labels, in ascending order."""
        return np.array(list(self.class_counts()), dtype=int)

    def class_counts(self) -> dict[int, int]:
        """Returns class -> number of its examples, for the classes that occur as labels, in ascending order."""
        if self._rows is None:
            return {int(label): count for label, count in self.corpus.manifest["class_counts"].items()}
        labels = self.labels(np.arange(len(self)))
        rows = [label for row in labels for label in (row if isinstance(row, list) else [row])]
        classes, counts = np.unique(np.array(rows, dtype=int), return_counts=True)
        return dict(zip(classes.tolist(), counts.tolist(), strict=True))

    def position(self, index: int) -> int:
        """Returns the position of the example with the given index.

        Raises:
            ValueError: no example has that index.
        """
        position = int(np.searchsorted(self.corpus.index, index))  # in the corpus
        is_there = position < len(self.corpus) and self.corpus.index[position] == index
        if is_there and self._rows is not None:
            row, position = position, int(np.searchsorted(self._rows, np.int32(position)))
            is_there = position < len(self._rows) and self._rows[position] == row
        if not is_there:
            raise ValueError(f"the example with index {index} is not in this split, or was left out by max_examples")
        return position

    def hash(self) -> str:
        """Returns 12 hexadecimal digits: a hash of the indices and token ids of the examples, in order."""
        if self._rows is None and self.erasures is None:
            return str(self.corpus.manifest["examples_hash"])
        digest = hashlib.sha256(self.index.astype("<i8").tobytes())
        for position in range(len(self)):
            digest.update(self[position].table.input_ids.astype("<i4").tobytes() + b"\0")
        return digest.hexdigest()[:12]

    def unknown_fraction(self) -> float:
        """Returns the fraction of unknown tokens among tokens that are not special; 0 if all tokens are special."""
        unknown, ordinary = self._of_rows(self.corpus.unknown).sum(), self._of_rows(self.corpus.ordinary).sum()
        return int(unknown) / int(ordinary) if ordinary else 0.0

    def with_evidence(self) -> np.ndarray:
        """Returns [number of examples] bool, True where an example has evidence tokens."""
        return self._of_rows(self.corpus.evidence_runs) > 0

    def summary(self) -> dict[str, Any]:
        """Returns facts about the examples and their tokens.

        `examples` is the number of examples, `mean_tokens` the mean number of tokens in an example, and
        `truncated_fraction` the fraction of examples that were truncated. `evidence_kept_fraction` is the fraction of
        evidence characters that were not truncated, averaged over the examples with evidence; None if no example has
        evidence.
        """
        kept = self._of_rows(self.corpus.evidence_kept)
        kept = kept[~np.isnan(kept)]
        return {
            "examples": len(self),
            "mean_tokens": float(self.lengths.mean()),
            "truncated_fraction": float(self._of_rows(self.corpus.truncated).mean()),
            "evidence_kept_fraction": float(kept.mean()) if len(kept) else None,
        }

    def _corpus_rows(self, positions: Sequence[int] | np.ndarray) -> np.ndarray:
        rows = np.asarray(positions, dtype=np.int64)
        return rows if self._rows is None else self._rows[rows]

    def _of_rows(self, values: np.ndarray) -> np.ndarray:
        return values if self._rows is None else values[self._rows]

    def _encoded(self, row: int) -> Encoded:
        encoded = self.corpus.encoded(row)
        if self.erasures is None:
            return encoded
        return self.erasures.of_example(encoded, int(self.corpus.index[row]))


class Lazy(Sequence[Value], Generic[Value]):
    """A sequence whose values are computed on access.

    Args:
        length: number of values.
        make: function that returns the value at a position.

    Example:
        >>> Lazy(3, lambda i: i * i)[1:], len(Lazy(3, str))
        ([1, 4], 3)
    """

    def __init__(self, length: int, make: Callable[[int], Value]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, position: int) -> Value: ...
    @overload
    def __getitem__(self, position: slice) -> list[Value]: ...
    def __getitem__(self, position: int | slice) -> Value | list[Value]:
        if isinstance(position, slice):
            return [self._make(i) for i in range(*position.indices(self._length))]
        return self._make(range(self._length)[position])
