"""The base class of encoders, which turn texts into tokens."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightning_xai.data.corpora.token_table import TokenTable
from lightning_xai.data.encoded import Encoded
from lightning_xai.data.init_args import arguments_of
from lightning_xai.data.tokenizers.tokenizer_fingerprint import encoder_fingerprint
from lightning_xai.runs.encoder_facts import is_plain


class Encoder(ABC):
    """Turns examples into tokens. An example is a dict with the columns that TextSource describes.

    Attributes:
        pad_token_id: id of the padding token.
        fill_token_id: id of the token that replaces erased tokens.
        mask_token_id, unk_token_id: ids of the mask token and the unknown token; None if the vocabulary has none.

    Example:
        >>> import numpy as np
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
    init_args: dict[str, Any]  # constructor arguments, defaults included

    def __new__(cls, *args: Any, **kwargs: Any) -> Encoder:
        self = super().__new__(cls)
        self.init_args = arguments_of(cls, self, args, kwargs)
        return self

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Number V of token ids, special tokens included."""

    @property
    def needs_fit(self) -> bool:
        """Whether the encoder is not ready yet. If so, call `take_classes`, then `fit` if `needs_fit` is still True."""
        return False

    @property
    def keeps_text(self) -> bool:
        """Whether, after `fit`, `state_dict` contains words or texts of the rows."""
        return self.needs_fit

    @property
    def word_vectors(self) -> Tensor | None:
        """[V, D] pretrained embeddings of the token ids, NaN for ids without one; None if no id has an embedding."""
        return None

    @property
    def symbol_mask(self) -> Tensor:
        """[V] bool, True for ids whose vocabulary entry has no ASCII letter or digit, such as punctuation."""
        ids = np.arange(self.vocab_size, dtype=np.int32)
        none, zeros = np.zeros(len(ids), dtype=bool), np.zeros_like(ids)
        entries = self.tokens(Encoded(ids, none, none, ids, zeros, zeros, np.zeros((len(ids), 2), dtype=np.int32)))
        return torch.tensor([re.search("[A-Za-z0-9]", entry) is None for entry in entries])

    @property
    def verbalizer_ids(self) -> list[int] | None:
        """[C] ids of the tokens that answer the prompt, one for each class; None without a prompt."""
        return None

    def take_classes(self, class_names: Sequence[str], evaluated: Iterable[str] = ()) -> None:  # noqa: B027
        """Receives the names of the classes. Called before `fit`, and only if `needs_fit`. By default, does nothing.

        Args:
            class_names: names of the classes 0, 1, ...
            evaluated: the texts of all splits other than "train".
        """

    def fit(self, examples: Iterable[dict[str, Any]]) -> None:  # noqa: B027 - most encoders have nothing to learn
        """Learns from the training rows, for example a vocabulary. By default, does nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that `fit` has learned, as plain Python values; {} if nothing was learned."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads the `state_dict` of a checkpoint. It replaces everything that this encoder has learned.

        Raises:
            ValueError: the vocabulary of this encoder is fixed.
        """
        raise ValueError(
            f"the checkpoint has a learned vocabulary, which {type(self).__name__} cannot load: "
            "choose data whose encoder is a VocabularyEncoder with `words: null`"
        )

    def summary(self) -> dict[str, Any]:
        """Returns facts about this encoder for the log; {} by default."""
        return {}

    def fingerprint(self) -> str:
        """Returns a hash that changes if the meaning of an id or the tokenization of a text changes.

        By default, the hash covers the tokens of some short, fixed texts. An encoder that may truncate these texts must
        override this method, so that the hash does not depend on `max_length`.
        """
        return encoder_fingerprint(self)

    def facts(self) -> dict[str, Any]:
        """Returns facts about this encoder, in the format of `runs.encoder_facts`.

        Constructor arguments are left out unless they consist of plain values, such as numbers, strings and lists.

        Example:
            >>> from lightning_xai.data.vocabulary import VocabularyEncoder
            >>> facts = VocabularyEncoder(words=2, max_length=9).facts()
            >>> facts["class_path"], facts["init_args"]["max_length"], facts["vocab_size"]
            ('lightning_xai.data.vocabulary.VocabularyEncoder', 9, 7)
        """
        return {
            "class_path": f"{type(self).__module__}.{type(self).__qualname__}",
            "init_args": {name: value for name, value in self.init_args.items() if is_plain(value)},
            "vocab_size": self.vocab_size,
            "fingerprint": self.fingerprint(),
        }

    def with_max_length(self, max_length: int) -> Encoder:
        """Returns a copy that truncates examples to `max_length` tokens, and keeps the learned state of this encoder.

        Raises:
            ValueError: the encoder does not truncate examples, or `max_length` leaves no room for a text.

        Example:
            >>> from lightning_xai.data.vocabulary import VocabularyEncoder
            >>> len(VocabularyEncoder(words=9).with_max_length(4).encode({"text": "w1 w2 w3 w4"}))
            4
        """
        raise ValueError(
            f"{type(self).__name__} cannot limit the length of a single split: remove max_lengths from the source"
        )

    def encode(self, example: dict[str, Any]) -> Encoded:
        """Returns the tokens of one example."""
        return self.encode_batch([example])[0]

    @abstractmethod
    def encode_batch(self, examples: Sequence[dict[str, Any]]) -> list[Encoded]:
        """Returns the tokens of every example."""

    def encode_table(self, examples: Sequence[dict[str, Any]]) -> TokenTable:
        """Returns the tokens of all examples in flat arrays. An encoder may override this method to be faster."""
        return TokenTable.of(self.encode_batch(examples))

    @abstractmethod
    def tokens(self, encoded: Encoded) -> list[str]:
        """Returns the vocabulary entry of each token, as the tokenizer spells it."""
