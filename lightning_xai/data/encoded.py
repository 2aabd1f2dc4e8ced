"""The tokens of one example."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Encoded:
    """One tokenized example. Each array has one entry per token, special tokens included. There is no padding.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> encoded = VocabularyEncoder(words=95).encode({"text": "w1 w2"})
        >>> encoded.input_ids.tolist(), encoded.offsets.tolist()
        ([1, 6, 7, 2], [[0, 0], [0, 2], [3, 5], [0, 0]])
    """

    input_ids: np.ndarray  # [T] int32
    special_tokens_mask: np.ndarray  # [T] bool
    token_mask: np.ndarray  # [T] bool, True where a token may be explained and erased
    baseline_ids: np.ndarray  # [T] int32, the fill token where token_mask is True, input_ids elsewhere
    word_ids: np.ndarray  # [T] int32, index of the word, counted through text and then text_pair; -1 outside of both
    sequence_ids: np.ndarray  # [T] int8, 0 in text, 1 in text_pair, -1 at special and prompt tokens
    offsets: np.ndarray  # [T, 2] int32, the token's start and end in its text, without white space; 0 outside of texts
    token_type_ids: np.ndarray | None = None  # [T] int8
    rationales: dict[int, np.ndarray] = field(default_factory=dict)  # class -> [T] bool, True at evidence tokens
    evidence_kept: float | None = None  # fraction of evidence characters that were not truncated; None without evidence
    truncated: bool = False
    # class -> number of truncated evidence tokens, for the classes whose evidence was all truncated
    evidence_cut: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def text_offsets(self) -> np.ndarray:
        """[T, 2] offsets into `text`; (0, 0) at all tokens outside of `text`."""
        return np.where(self.sequence_ids[:, None] == 0, self.offsets, 0)
