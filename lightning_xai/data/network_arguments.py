"""Arguments that a network takes from the data's encoder, and a check that network and data use the same tokenizer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor

from lightning_xai.data.base import Encoder
from lightning_xai.data.corpora.encoded_source import NoTrainingRows
from lightning_xai.data.tokenizers.own_tokenizer import check_own_tokenizer
from lightning_xai.runs.encoder_facts import EncoderFacts


class NetworkArguments:
    """Base class of data modules. Its properties describe the encoder, and networks take them as arguments.

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
        """Loads the encoder's vocabulary from a checkpoint."""

    @abstractmethod
    def _ensure_fitted_encoder(self) -> None:
        """Fits the encoder if it must learn from the training texts and has not been fitted yet."""

    @property
    def vocab_size(self) -> int | None:
        """Number V of token ids. A network's embedding table needs at least V rows.

        None if the encoder learns from training texts and there are none. It can then only take the vocabulary of a
        trained network (see `take_encoder`).
        """
        return self.encoder.vocab_size if self._encoder_is_fitted() else None

    @property
    def word_vectors(self) -> Tensor | None:
        """[V, D] pretrained embeddings of the token ids, NaN for ids without one; None if no id has an embedding."""
        return self.encoder.word_vectors if self._encoder_is_fitted() else None

    @property
    def verbalizers(self) -> list[int] | None:
        """[C] ids of the tokens that answer the prompt, one for each class; None without a prompt."""
        self._ensure_fitted_encoder()
        return self.encoder.verbalizer_ids

    def _encoder_is_fitted(self) -> bool:
        """Fits the encoder if necessary. Returns False if it learns from training texts and there are none."""
        try:
            self._ensure_fitted_encoder()
        except NoTrainingRows:
            return False
        return True

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return self.encoder.pad_token_id

    @property
    def mask_id(self) -> int | None:
        """Id of the mask token; None if the vocabulary lacks it."""
        return self.encoder.mask_token_id

    def encoder_facts(self) -> dict[str, Any]:
        """Returns facts about the fitted encoder, in the format of `runs.encoder_facts`."""
        self._ensure_fitted_encoder()
        return self.encoder.facts()

    def take_encoder(self, stored: EncoderFacts | None, path: str) -> None:
        """Checks that network and data use the same tokenizer.

        If the network's vocabulary was built from training texts, the data's encoder loads this vocabulary first.

        Args:
            stored: facts about the network's encoder; None if they are not known.
            path: path of the network, for messages.

        Raises:
            ValueError: the tokenizers differ, or the encoder of the data cannot load the vocabulary.
        """
        if stored is not None and stored.get("learned"):
            self.load_state_dict({"encoder": stored["learned"]})
        check_own_tokenizer(stored, self.encoder_facts(), path)
