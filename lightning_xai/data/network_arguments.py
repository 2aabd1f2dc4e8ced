"""Takes constructor arguments of a network, such as its vocabulary size, from the encoder of the data."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from lightning_xai.data.base import Encoder


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

    encoder: Encoder

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
