"""Encodes words with a vocabulary that is given or built from the training rows. Needs no pretrained tokenizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from tokenizers import Tokenizer, normalizers
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace, WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from lightning_xai.data.encoding import Encoded, FastTokenizerEncoder
from lightning_xai.data.vectors import coverage, read_word_vectors
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.text.quantity import quantity

Split = Literal["whitespace", "punctuation"]
SPECIAL_WORDS = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]


def numbered_words(num_words: int) -> list[str]:
    """Returns "w0" to "w{num_words - 1}".

    Example:
        >>> numbered_words(3)
        ['w0', 'w1', 'w2']
    """
    return [f"w{i}" for i in range(num_words)]


def frequent_words(texts: Iterable[Sequence[str]], *, min_count: int, max_words: int | None) -> list[str]:
    """Returns the words of the texts, without special words, sorted by descending frequency.

    The frequency of a word is the number of texts that contain it. Words of equal frequency are in alphabetical order.

    Args:
        texts: the words of each text.
        min_count: words that occur in fewer texts than this are left out.
        max_words: largest number of words to return; None for no limit.

    Example:
        >>> frequent_words([["b", "c"], ["c", "a"], ["c", "b"]], min_count=1, max_words=2)
        ['c', 'b']
    """
    counts = Counter(word for words in texts for word in set(words))
    kept = [word for word, count in counts.items() if count >= min_count and word not in SPECIAL_WORDS]
    return sorted(kept, key=lambda word: (-counts[word], word))[:max_words]


def word_tokenizer(words: Sequence[str], *, split: Split, lowercase: bool) -> PreTrainedTokenizerFast:
    """Returns a tokenizer with one token per word: [CLS] words [SEP], or [CLS] words [SEP] words [SEP] for a pair.

    Args:
        words: the vocabulary; its ids follow those of the five special words.
        split: "whitespace" or "punctuation", as in VocabularyEncoder.
        lowercase: whether words are converted to lower case before they are looked up.

    Example:
        >>> word_tokenizer(["good", "film"], split="whitespace", lowercase=True)("Good film?")["input_ids"]
        [1, 5, 4, 2]
    """
    vocabulary = {word: i for i, word in enumerate([*SPECIAL_WORDS, *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = WhitespaceSplit() if split == "whitespace" else Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
        unk_token="[UNK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


class VocabularyEncoder(FastTokenizerEncoder):
    """Encodes each word as one token: [CLS] words [SEP].

    Ids: [PAD] 0, [CLS] 1, [SEP] 2, [MASK] 3, [UNK] 4, followed by the words in their order.

    Args:
        words: the vocabulary. By default, the vocabulary is built from the training rows and stored in every
            checkpoint. A number n stands for the words "w0" to "w{n-1}", which are the words of the source `Planted`.
        max_length, fill, explain_pair: as in FastTokenizerEncoder.
        split: "whitespace" splits texts at white space. "punctuation" also separates punctuation from letters and
            digits, so that "film!!" becomes "film" and "!!".
        lowercase: whether words are converted to lower case before they are looked up.
        min_count: a built vocabulary keeps only words that occur in at least this many training rows.
        max_words: a built vocabulary keeps at most this many words, those that occur in the most training rows. None
            for no limit.
        vectors: file of pretrained word vectors, in a format that `read_word_vectors` reads. None for no vectors.

    Raises:
        ValueError: a word is repeated or special, or `min_count` or `max_words` is not positive. `fit` raises the
            error if no word remains. `encode_batch` raises the error if the vocabulary has not been built.

    Example:
        >>> encoder = VocabularyEncoder(lowercase=True)
        >>> encoder.fit([{"text": "A good film"}, {"text": "a bad film"}])
        >>> encoder.words
        ['a', 'film', 'bad', 'good']
        >>> encoder.tokens(encoder.encode({"text": "a great film"}))
        ['[CLS]', 'a', '[UNK]', 'film', '[SEP]']
    """

    def __init__(
        self,
        words: list[str] | int | None = None,
        max_length: int = 512,
        fill: str = "mask",
        explain_pair: bool = True,
        split: Split = "whitespace",
        lowercase: bool = False,
        min_count: int = 1,
        max_words: int | None = None,
        vectors: str | None = None,
    ) -> None:
        require_choices({"split": Split}, {"split": split})
        for name, value in {"min_count": min_count, "max_words": max_words}.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: give at least 1")
        self.words = numbered_words(words) if isinstance(words, int) else words
        self.built = words is None
        self.split: Split = split
        self.lowercase = lowercase
        self.min_count = min_count
        self.max_words = max_words
        self.vectors = vectors
        self._vectors: Tensor | None = None
        vocabulary = [*SPECIAL_WORDS, *(self.words or [])]
        if len(set(vocabulary)) < len(vocabulary):
            raise ValueError(
                f"the vocabulary of {quantity(len(self.words or []), 'word')} has duplicates or special words; "
                "remove them"
            )
        super().__init__(self._tokenizer(), max_length, fill, explain_pair)

    def _tokenizer(self) -> PreTrainedTokenizerFast:
        return word_tokenizer(self.words or [], split=self.split, lowercase=self.lowercase)

    def _set_words(self, words: list[str]) -> None:
        self.words, self._vectors = words, None
        self.tokenizer = self._tokenizer()
        self.tokenizer.truncation_side = "right"

    @property
    def needs_fit(self) -> bool:
        return self.words is None

    def fit(self, examples: Iterable[dict[str, Any]]) -> None:
        """Builds the vocabulary from the columns `text` and `text_pair` of the rows."""
        backend = self.tokenizer.backend_tokenizer
        normalize = backend.normalizer.normalize_str if self.lowercase else str

        def split(example: dict[str, Any]) -> list[str]:
            texts = [example["text"], example.get("text_pair") or ""]
            return [word for text in texts for word, _ in backend.pre_tokenizer.pre_tokenize_str(normalize(text))]

        words = frequent_words(map(split, examples), min_count=self.min_count, max_words=self.max_words)
        if not words:
            raise ValueError(f"no word occurs in at least {self.min_count} training rows: lower min_count")
        self._set_words(words)

    def encode_batch(self, examples: Sequence[dict[str, Any]]) -> list[Encoded]:
        if self.needs_fit:
            raise ValueError("the vocabulary is not built yet: call fit with the training rows, or set `words`")
        return super().encode_batch(examples)

    def state_dict(self) -> dict[str, Any]:
        return {"words": self.words} if self.built and self.words else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not self.built and state["words"] != self.words:
            raise ValueError(
                f"the checkpoint has a vocabulary of {len(state['words'])} words, but the encoder was given "
                f"another vocabulary of {len(self.words or [])} words: set the encoder's words to null"
            )
        if self.built:
            self._set_words(list(state["words"]))

    @property
    def word_vectors(self) -> Tensor | None:
        """[V, D] pretrained vectors, NaN for special words and words that the file lacks; None if `vectors` is None.

        Raises:
            ValueError: the file cannot be read.
        """
        if self.vectors is not None and self._vectors is None:
            vectors = torch.from_numpy(read_word_vectors(self.vectors, self.words or []))
            self._vectors = torch.cat([torch.full((len(SPECIAL_WORDS), vectors.shape[1]), torch.nan), vectors])
        return self._vectors

    def summary(self) -> dict[str, Any]:
        vectors = self._vectors  # None until `word_vectors` is used, so that `summary` reads no file
        covered = None if vectors is None else coverage(vectors[len(SPECIAL_WORDS) :].numpy())
        return {"num_words": len(self.words or []), "vector_coverage": covered}
