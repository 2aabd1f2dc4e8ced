"""Finds encoded corpora in a folder, and encodes missing ones."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lightning_xai.data.base import Encoder
from lightning_xai.data.corpora.corpus import Corpus, read_manifest
from lightning_xai.data.corpora.key import key_of
from lightning_xai.data.corpora.writer import MANIFEST, CorpusWriter
from lightning_xai.data.sources.row_stream import blocks_of
from lightning_xai.runs.files.whole_files import write_json
from lightning_xai.runs.files.whole_folders import make_private, remove_remains, set_aside, write_whole_folder
from lightning_xai.runs.locks.shared_work import found_or_made
from lightning_xai.runs.progress import say


def write_corpus(
    folder: Path,
    rows: Iterable[dict[str, Any]],
    encoder: Encoder,
    *,
    index: np.ndarray | None = None,
    columns: Sequence[str] | None = None,
    multilabel: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> Corpus:
    """Returns the corpus in `folder`. If there is none yet, encodes the rows into a new corpus first.

    Args:
        folder: the folder of the corpus.
        rows: the rows, with the columns of TextSource.
        encoder: turns rows into tokens.
        index: [R] row number of each row in the full split; by default 0, 1, ...
        columns: names of the columns; by default, those of the first row.
        multilabel: whether the labels of a row are a list.
        facts: additional facts for the manifest.

    Raises:
        ValueError: the disk is full, or a row cannot be encoded.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> rows = [{"text": "w1", "labels": [2], "id": "a"}]
        >>> folder = Path(tempfile.mkdtemp(), "corpus")
        >>> write_corpus(folder, rows, VocabularyEncoder(words=95), multilabel=True).labels([0])
        [[2]]
    """
    if index is None or columns is None:
        rows = list(rows)
        index = np.arange(len(rows)) if index is None else index
        columns = list(rows[0]) if columns is None else columns
    numbers, names = np.asarray(index, dtype=np.int64), list(columns)

    def write(partial: Path) -> None:
        writer = CorpusWriter(partial, numbers, names, multilabel=multilabel, unk_token_id=encoder.unk_token_id)
        try:
            for block in blocks_of(rows):
                writer.add(encoder.encode_table(block), block)
            write_json(partial / MANIFEST, {**writer.finish(), **(facts or {})})
        finally:
            writer.close()

    write_whole_folder(folder, write)
    return Corpus(folder)


def note_use(folder: Path) -> None:
    """Records that a corpus is used now, unless its folder is read-only.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> os.utime(folder, (0, 0))
        >>> note_use(folder)
        >>> last_use(folder) > 0
        True
    """
    with contextlib.suppress(OSError):
        os.utime(folder)  # corpora never change, so the folder's modification time is free to hold the last use


def last_use(folder: Path) -> float:
    """Returns when a corpus was last opened or written, in seconds since 1970.

    Example:
        >>> last_use(Path("."))  # doctest: +ELLIPSIS
        1...
    """
    return folder.stat().st_mtime


class CorpusCache:
    """The encoded corpora in a folder. The name of each corpus is a hash of the facts that determine its contents.

    The facts are, for example, the arguments of the source and of the encoder, and the hashes of the source's files.

    Args:
        folder: the folder, which is created if it is missing.

    Example:
        >>> import tempfile
        >>> cache = CorpusCache(Path(tempfile.mkdtemp(), "corpora"))
        >>> cache.find({"split": "train"}) is None
        True
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, facts: Mapping[str, Any]) -> Corpus | None:
        """Returns the corpus with these facts, or None if it is missing or damaged. A damaged corpus is renamed."""
        folder = self.folder / key_of(facts)
        if not folder.is_dir():
            return None
        try:
            corpus = Corpus(folder)
            note_use(folder)
            return corpus
        except (ValueError, OSError) as error:
            say(f"the stored encoding of a corpus is damaged, so the corpus is encoded again: nothing to do ({error})")
            set_aside(folder)
            return None

    def find_or_make(self, facts: Mapping[str, Any], make: Callable[[Path], Corpus], name: str) -> Corpus:
        """Returns the corpus with these facts. If there is none, the corpus is encoded first.

        Args:
            facts: all that determines the contents of the corpus, such as the arguments of the source and the encoder.
            make: function that encodes the corpus into the given folder.
            name: name of the split, for messages.
        """
        folder = self.folder / key_of(facts)
        if (corpus := self.find(facts)) is not None:
            return corpus
        make_private(self.folder)
        remove_remains(self.folder)
        return found_or_made(
            lambda: self.find(facts),
            lambda: make(folder),
            folder.with_suffix(".lock"),
            waiting=f"waiting for another process to encode {name}",
        )

    def manifests(self) -> dict[Path, dict[str, Any]]:
        """Returns folder -> manifest for all corpora; damaged corpora are left out."""
        manifests = {}
        for file in sorted(self.folder.glob(f"*/{MANIFEST}")):
            try:
                manifests[file.parent] = read_manifest(file.parent)
            except ValueError:
                continue
        return manifests
