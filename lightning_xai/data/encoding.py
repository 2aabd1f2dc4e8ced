"""Encoders turn texts into tokens with their ids, words, character offsets and rationales."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from lightning_xai.functional.model_folders import resolve_model_path
from lightning_xai.functional.spans import evidence_kept_fraction, strip_offsets, token_mask_from_spans, word_offsets

Fill = Literal["mask", "pad", "unk"]
_PROBE = "The cat and 2 other animals walked, unbelievably."


@dataclass(frozen=True)
class Encoded:
    """One tokenized example. Each array has one entry per token, special tokens included. There is no padding.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> encoded = VocabularyEncoder().encode({"text": "w1 w2"})
        >>> encoded.input_ids.tolist(), encoded.offsets.tolist()
        ([1, 6, 7, 2], [[0, 0], [0, 2], [3, 5], [0, 0]])
    """

    input_ids: np.ndarray  # [T] int32
    special_tokens_mask: np.ndarray  # [T] bool
    token_mask: np.ndarray  # [T] bool, True where a token may be explained and erased
    baseline_ids: np.ndarray  # [T] int32, the fill token where token_mask is True, input_ids elsewhere
    word_ids: np.ndarray  # [T] int32, number of the word, first in text, then in text_pair; -1 at special tokens
    sequence_ids: np.ndarray  # [T] int8, 0 in text, 1 in text_pair, -1 at special tokens
    offsets: np.ndarray  # [T, 2] int32, begin and end in text or text_pair, without outer spaces; 0 at special tokens
    token_type_ids: np.ndarray | None = None  # [T] int8
    rationales: dict[int, np.ndarray] = field(default_factory=dict)  # class -> [T] bool, for classes with evidence
    evidence_kept: float | None = None  # fraction of evidence characters that truncation left; None without evidence
    truncated: bool = False

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def text_offsets(self) -> np.ndarray:
        """[T, 2] offsets into `text`; 0, 0 at special tokens and at tokens of `text_pair`."""
        return np.where(self.sequence_ids[:, None] == 0, self.offsets, 0)


class Encoder(ABC):
    """Turns an example, a dict with the columns of TextSource, into tokens.

    Attributes:
        pad_token_id: id of the padding token.
        fill_token_id: id of the token that replaces erased tokens.
        mask_token_id, unk_token_id: id of the mask token and of the unknown token; None if the vocabulary lacks it.

    Example:
        >>> class Letters(Encoder):
        ...     pad_token_id, fill_token_id, mask_token_id, unk_token_id, vocab_size = 0, 1, 1, None, 28
        ...
        ...     def encode_batch(self, examples):
        ...         return [self.letters(example["text"]) for example in examples]
        ...
        ...     def letters(self, text):
        ...         ids = np.array([ord(letter) - 95 for letter in text], dtype=np.int32)
        ...         number, offset = np.arange(len(ids)), np.arange(len(ids))[:, None] + [0, 1]
        ...         special, fill = np.zeros(len(ids), dtype=bool), np.ones_like(ids)
        ...         return Encoded(ids, special, ~special, fill, number, 0 * number, offset)
        ...
        ...     def tokens(self, encoded):
        ...         return [chr(95 + i) for i in encoded.input_ids]
        >>> encoder = Letters()
        >>> encoded = encoder.encode({"text": "cab"})
        >>> encoded.input_ids.tolist(), encoder.tokens(encoded)
        ([4, 2, 3], ['c', 'a', 'b'])
    """

    pad_token_id: int
    fill_token_id: int
    mask_token_id: int | None
    unk_token_id: int | None

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Number V of token ids, special tokens included."""

    @property
    def needs_fit(self) -> bool:
        """Whether `fit` must be called before anything can be encoded."""
        return False

    @property
    def word_vectors(self) -> Tensor | None:
        """[V, D] pretrained embeddings of the ids, NaN for ids that have none; None if no id has one."""
        return None

    def fit(self, examples: Iterable[dict[str, Any]]) -> None:  # noqa: B027 - most encoders have nothing to learn
        """Builds the vocabulary from the training rows. Encoders with a fixed vocabulary do nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Returns what `fit` learned, as plain Python values; {} if nothing was learned."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replaces what this encoder learned by a `state_dict` from a checkpoint.

        Raises:
            ValueError: the vocabulary of this encoder is fixed.
        """
        raise ValueError(
            f"the checkpoint has a vocabulary of its own, which {type(self).__name__} cannot take over: "
            "choose data with VocabularyEncoder and words left out (null)"
        )

    def summary(self) -> dict[str, Any]:
        """Returns facts about the vocabulary for the log."""
        return {}

    def encode(self, example: dict[str, Any]) -> Encoded:
        """Returns the tokens of one example."""
        return self.encode_batch([example])[0]

    @abstractmethod
    def encode_batch(self, examples: Sequence[dict[str, Any]]) -> list[Encoded]:
        """Returns the tokens of every example."""

    @abstractmethod
    def tokens(self, encoded: Encoded) -> list[str]:
        """Returns the vocabulary entry of each token, as the tokenizer spells it."""


class FastTokenizerEncoder(Encoder):
    """Encodes with a Hugging Face fast tokenizer; configurations name one of the subclasses.

    Long texts are cut on the right but keep the final special token; of a text and its pair, the longer one is cut
    first. The tokenizer's pre-tokenizer determines the words; if it does not split, words end at white space. If a
    text yields no token, not even a special one, it becomes one unknown or end-of-text token that counts as special.

    Args:
        tokenizer: the tokenizer.
        max_length: largest number of tokens in an example, special tokens included.
        fill: the special token, "mask", "pad" or "unk", that replaces erased tokens in `baseline_ids`.
        explain_pair: whether tokens of `text_pair` may be explained and erased.

    Raises:
        ValueError: the tokenizer is slow, has no fill token, or reports wrong offsets; or `max_length` is too small.

    Example:
        >>> from lightning_xai.data.vocabulary import word_tokenizer
        >>> tokenizer = word_tokenizer(["good", "film"], split="whitespace", lowercase=True)
        >>> FastTokenizerEncoder(tokenizer, max_length=4).encode({"text": "Good film today"}).input_ids.tolist()
        [1, 5, 6, 2]
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, max_length: int = 512, fill: Fill = "mask", explain_pair: bool = True
    ) -> None:
        name = tokenizer.name_or_path or type(tokenizer).__name__
        if not tokenizer.is_fast:
            raise ValueError(
                f"{name}: {type(tokenizer).__name__} is a slow tokenizer without character offsets; "
                "save its fast version as tokenizer.json"
            )
        fill_token_id = getattr(tokenizer, f"{fill}_token_id")
        if fill_token_id is None:
            possible = [f for f in get_args(Fill) if getattr(tokenizer, f"{f}_token_id") is not None]
            if not possible:
                raise ValueError(f"{name} has no mask, pad or unknown token for erased tokens; use another tokenizer")
            raise ValueError(f"{name} has no {fill} token; set fill: {' or fill: '.join(possible)}")
        num_special = tokenizer.num_special_tokens_to_add(pair=True)
        if max_length <= num_special:
            raise ValueError(f"max_length={max_length} must be above {num_special}, the number of special tokens")
        tokenizer.truncation_side = "right"
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.explain_pair = explain_pair
        self.fill_token_id = fill_token_id
        self.mask_token_id = tokenizer.mask_token_id
        self.unk_token_id = tokenizer.unk_token_id
        candidates = [tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id, 0]
        self.pad_token_id = next(c for c in candidates if c is not None)
        candidates = [tokenizer.unk_token_id, tokenizer.eos_token_id, self.pad_token_id]
        self._empty_id = next(c for c in candidates if c is not None)
        structural = ("cls", "sep", "bos", "eos", "pad")
        self._structural_ids = [i for i in (getattr(tokenizer, f"{s}_token_id") for s in structural) if i is not None]
        encoding = tokenizer([_PROBE], return_special_tokens_mask=True).encodings[0]
        self._check_offsets(encoding, name)
        self._words_by_space = len({word for word in encoding.word_ids if word is not None}) < 2

    @property
    def vocab_size(self) -> int:
        return len(self.tokenizer)

    def _check_offsets(self, encoding: Any, name: str) -> None:
        """Raises ValueError if the offsets of a token do not point at this token in the text _PROBE."""
        for token, (begin, end), special in zip(
            encoding.tokens, encoding.offsets, encoding.special_tokens_mask, strict=True
        ):
            if special or token == self.tokenizer.unk_token:
                continue
            spelled = self.tokenizer.convert_tokens_to_string([token]).removeprefix("##").strip()
            if spelled.casefold() != _PROBE[begin:end].strip().casefold():
                raise ValueError(
                    f"{name}: offsets of token {token!r} point at {_PROBE[begin:end]!r} in {_PROBE!r}; "
                    "upgrade tokenizers or rebuild tokenizer.json"
                )

    def encode_batch(self, examples: Sequence[dict[str, Any]]) -> list[Encoded]:
        if not examples:
            return []
        texts = [example["text"] for example in examples]
        pairs = [example.get("text_pair") for example in examples]
        paired = [i for i, pair in enumerate(pairs) if pair is not None]
        single = [i for i, pair in enumerate(pairs) if pair is None]
        encodings: list[Any] = [None] * len(examples)
        for rows, second in ((single, None), (paired, [pairs[i] for i in paired])):
            if rows:
                batch = self.tokenizer(
                    [texts[i] for i in rows], second, truncation="longest_first", max_length=self.max_length,
                    padding=False,
                )  # fmt: skip
                for i, encoding in zip(rows, batch.encodings, strict=True):
                    encodings[i] = encoding
        return [self._encoded(encoding, example) for encoding, example in zip(encodings, examples, strict=True)]

    def _encoded(self, encoding: Any, example: dict[str, Any]) -> Encoded:
        texts = [example["text"], example.get("text_pair") or ""]
        input_ids = np.array(encoding.ids or [self._empty_id], dtype=np.int32)  # [T]
        if encoding.ids:
            special = np.array(encoding.special_tokens_mask, dtype=bool) | np.isin(input_ids, self._structural_ids)
            sequence_ids = np.array([-1 if s is None else s for s in encoding.sequence_ids], dtype=np.int8)
            word_ids = np.array([-1 if w is None else w for w in encoding.word_ids], dtype=np.int32)
            offsets = np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)
        else:
            special, sequence_ids = np.ones(1, dtype=bool), np.full(1, -1, dtype=np.int8)
            word_ids, offsets = np.full(1, -1, dtype=np.int32), np.zeros((1, 2), dtype=np.int32)
        sequence_ids[special] = -1
        for sequence, text in enumerate(texts):
            rows = sequence_ids == sequence
            offsets[rows] = strip_offsets(offsets[rows], text)
            if self._words_by_space and text and rows.any():
                begins = word_offsets(text)[:, 0]
                word_ids[rows] = np.maximum(np.searchsorted(begins, offsets[rows, 0], side="right") - 1, 0)
        offsets[special], word_ids[special] = 0, -1
        first, second = sequence_ids == 0, sequence_ids == 1
        if second.any():  # the tokenizer numbers the words of each text from 0
            word_ids[second] += word_ids[first].max(initial=-1) + 1
        token_mask = ~special if self.explain_pair else first
        rationales: dict[int, np.ndarray] = {}
        spans: list[list[int]] = []
        for rationale in example.get("rationales") or []:
            mask = token_mask_from_spans(rationale["spans"], offsets, texts[0], first)
            spans += rationale["spans"]
            if mask.any():
                label = int(rationale["label"])
                rationales[label] = rationales[label] | mask if label in rationales else mask
        has_types = "token_type_ids" in self.tokenizer.model_input_names
        types = np.array(encoding.type_ids or [0], dtype=np.int8) if has_types else None
        return Encoded(
            input_ids=input_ids,
            special_tokens_mask=special,
            token_mask=token_mask,
            baseline_ids=np.where(token_mask, self.fill_token_id, input_ids).astype(np.int32),
            word_ids=word_ids,
            sequence_ids=sequence_ids,
            offsets=offsets,
            token_type_ids=types,
            rationales=rationales,
            evidence_kept=evidence_kept_fraction(spans, offsets[first], texts[0]),
            truncated=bool(encoding.overflowing),
        )

    def tokens(self, encoded: Encoded) -> list[str]:
        return [str(self.tokenizer.convert_ids_to_tokens(token_id)) for token_id in encoded.input_ids.tolist()]


class TokenizerEncoder(FastTokenizerEncoder):
    """Encodes with the tokenizer of a pretrained model.

    Args:
        path: a folder, a Hugging Face hub id, or "package:NAME/FOLDER" for a folder in an installed package.
        max_length, fill, explain_pair: as in FastTokenizerEncoder.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.vocabulary import word_tokenizer
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = word_tokenizer(["good", "film"], split="whitespace", lowercase=False).save_pretrained(folder)
        ...     TokenizerEncoder(folder).encode({"text": "good film"}).input_ids.tolist()
        [1, 5, 6, 2]
    """

    def __init__(self, path: str, max_length: int = 512, fill: Fill = "mask", explain_pair: bool = True) -> None:
        tokenizer: Any = AutoTokenizer.from_pretrained(resolve_model_path(path))
        super().__init__(tokenizer, max_length, fill, explain_pair)
