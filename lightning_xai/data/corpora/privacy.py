"""Keeps private texts, such as clinical notes, inside the folder of the encoded corpora."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning_xai.data.base import Encoder
from lightning_xai.data.sources.base import TextSource


def has_private_text(source: TextSource) -> bool:
    """Returns whether the text of a source, or of a source among its arguments, is private.

    Example:
        >>> from lightning_xai.data.sources.bundle import Bundle
        >>> from lightning_xai.data.sources.planted import Planted
        >>> class Notes(Planted):
        ...     text_is_private = True
        >>> has_private_text(Planted()), has_private_text(Bundle([Notes()]))
        (False, True)
    """
    return source.text_is_private or _any_private(source.init_args)


def _any_private(value: Any) -> bool:
    if isinstance(value, TextSource):
        return has_private_text(value)
    if isinstance(value, Mapping):
        return any(map(_any_private, value.values()))
    return isinstance(value, list | tuple) and any(map(_any_private, value))


def require_public(source: TextSource, reason: str, remedy: str) -> None:
    """Refuses an operation that would write text of a private source into the folder of a run.

    Args:
        source: the source.
        reason: the beginning of the error message. It says what would write the text.
        remedy: another part of the error message. It says what to do instead.

    Raises:
        ValueError: the text is private.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> require_public(Planted(), "Heatmaps shows texts", "leave it out")
    """
    if has_private_text(source):
        raise ValueError(
            f"{reason}, but the text of {type(source).__name__} is private: {remedy}, or set allow_text: true in the "
            "source, if your data use agreement permits storing text in the run's folder and covers everyone who can "
            "read that folder"
        )


def require_cache_apart(source: TextSource, cache: Path, runs_dir: Path) -> None:
    """Refuses a cache of private texts that is inside the folder of the runs, which others may read.

    Links are followed.

    Args:
        source: the source.
        cache: folder of the encoded corpora.
        runs_dir: folder of all runs.

    Raises:
        ValueError: the text is private, and `cache` is `runs_dir` or is inside it.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> require_cache_apart(Planted(), Path("runs/cache"), Path("runs"))  # the text is public
    """
    if cache.resolve().is_relative_to(runs_dir.resolve()):
        what = f"the cache {cache} is inside {runs_dir}, the folder of the runs, and would hold texts"
        require_public(source, what, "set cache_dir or $LIGHTNING_XAI_CACHE to a folder elsewhere")


def require_public_vocabulary(source: TextSource, encoder: Encoder) -> None:
    """Refuses an encoder that would learn words or texts of a private source, since every checkpoint would hold them.

    Raises:
        ValueError: the text is private, and the encoder learns from it.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> require_public_vocabulary(Planted(), VocabularyEncoder())
    """
    if encoder.keeps_text:
        what = f"{type(encoder).__name__} learns from the training texts, and every checkpoint holds what it learned"
        require_public(source, what, "use a TokenizerEncoder, or give the encoder words or shots that are public")
