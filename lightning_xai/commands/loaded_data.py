"""Data that several runs of one command share."""

from __future__ import annotations

from typing import Any, NamedTuple

from lightning_xai.data.module import TextDataModule


class LoadedData(NamedTuple):
    """A data module, and the settings for loading and encoding its examples.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> LoadedData(TextDataModule(Planted(), VocabularyEncoder()), {"data.init_args.batch_size": 16}).settings
        {'data.init_args.batch_size': 16}
    """

    module: TextDataModule
    settings: dict[str, Any]
