"""The encoder of the data and a network: the arguments that a network takes from it, and the check of both."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor

from lightning_xai.data.base import Encoder
from lightning_xai.data.own_tokenizer import check_own_tokenizer
from lightning_xai.runs.encoder_facts import Facts


class NetworkArguments:
    """Base of data modules. Its properties are constructor arguments that a network takes from the encoder.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> class Data(NetworkArguments):
        ...     encoder = VocabularyEncoder(words=15)
        ...
        ...     def _ensure_fitted_encoder(self):
        ...         pass
        >>> Data().vocab_size, Data().pad_id, Data().mask_id
        (20, 0, 3)
    """

    @property
    @abstractmethod
    def encoder(self) -> Encoder:
        """The encoder of the data."""

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Gives the encoder the vocabulary from a checkpoint."""

    @abstractmethod
    def _ensure_fitted_encoder(self) -> None:
        """Builds the vocabulary of an encoder that learns its vocabulary from texts."""

    @property
    def vocab_size(self) -> int:
        """Number V of token ids, which is the number of rows in a network's embedding table."""
        self._ensure_fitted_encoder()
        return self.encoder.vocab_size

    @property
    def word_vectors(self) -> Tensor | None:
        """[V, D] pretrained embeddings of the token ids, NaN for ids that have none; None if no id has one."""
        self._ensure_fitted_encoder()
        return self.encoder.word_vectors

    @property
    def verbalizers(self) -> list[int] | None:
        """[C] id of the token that stands for each class after a prompt; None if the encoder has no prompt."""
        self._ensure_fitted_encoder()
        return self.encoder.verbalizer_ids

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return self.encoder.pad_token_id

    @property
    def mask_id(self) -> int | None:
        """Id of the mask token; None if the vocabulary has none."""
        return self.encoder.mask_token_id

    def encoder_facts(self) -> dict[str, Any]:
        """Returns facts about the fitted encoder, in the format of `runs.encoder_facts`."""
        self._ensure_fitted_encoder()
        return self.encoder.facts()

    def take_encoder(self, before: Facts | None, place: str) -> None:
        """Copies the vocabulary that a network's encoder learned, and then calls `check_own_tokenizer`."""
        if before is not None and before.get("learned"):
            self.load_state_dict({"encoder": before["learned"]})
        check_own_tokenizer(before, self.encoder_facts(), place)
