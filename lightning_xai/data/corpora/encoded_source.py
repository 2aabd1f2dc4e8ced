"""A source whose splits are encoded once, and then read from memory maps by all processes and runs."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lightning_xai.data.base import Encoder
from lightning_xai.data.corpora.cache import CorpusCache, write_corpus
from lightning_xai.data.corpora.choice import choose_rows, choose_stratified_rows
from lightning_xai.data.corpora.corpus import Corpus
from lightning_xai.data.corpora.file_hashes import FileHashes
from lightning_xai.data.corpora.key import LAYOUT, code_hash, encoder_key_facts, key_of, library_facts, source_facts
from lightning_xai.data.corpora.privacy import has_private_text, require_public_vocabulary
from lightning_xai.data.corpora.source_table import SourceTable
from lightning_xai.data.sources.base import TextSource, check_split
from lightning_xai.data.sources.row_checks import check_example
from lightning_xai.data.sources.row_stream import Rows, read_rows
from lightning_xai.functional.model_files.cache_folder import cache_folder
from lightning_xai.runs.counted import Counted
from lightning_xai.runs.files.whole_files import read_json, write_json
from lightning_xai.runs.files.whole_folders import set_aside
from lightning_xai.runs.locks.shared_work import found_or_made
from lightning_xai.runs.progress import unsaid
from lightning_xai.runs.ranks import rank

# a subset of at least 1/4 of a split's rows is read from the corpus of the whole split; a smaller subset is encoded
# into a corpus that has only the rows of the subset
FEWEST_OF_A_VIEW = 4


class NoTrainingRows(ValueError):
    """An encoder learns from training rows, but the source has none."""


class EncodedSource:
    """The splits of a source, each encoded into a corpus.

    Args:
        source: loads the rows.
        encoder: turns rows into tokens.
        cache_dir: folder of the encoded corpora, as in `cache_folder`.
        verify: whether all files of the source and of the corpora are read again to check their contents.

    Attributes:
        configuration: name of the configuration file that describes the data, or "" if there is none. The name is
            written to the manifests of newly encoded corpora, and does not affect the rows.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.sources.planted import Planted
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> data = EncodedSource(Planted(num_train=8), VocabularyEncoder(words=95), tempfile.mkdtemp())
        >>> data.table.num_rows["train"], len(data.corpus("train"))
        (8, 8)
    """

    def __init__(
        self, source: TextSource, encoder: Encoder, cache_dir: str | None = None, *, verify: bool = False
    ) -> None:
        require_public_vocabulary(source, encoder)
        self.source, self.encoder = source, encoder
        self.verify = verify
        self.configuration = ""
        self._folder = cache_folder(cache_dir)
        self._loaded: Mapping[str, Rows] | None = None

    @property
    def text_is_private(self) -> bool:
        """Whether the texts are private, so that they must not be stored outside the folder of the encoded corpora."""
        return has_private_text(self.source)

    @property
    def cache(self) -> CorpusCache:
        """The cache of all encoded corpora."""
        return CorpusCache(self._folder / "corpora")

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Facts that determine the rows of the source; if a fact changes, the rows are encoded again."""
        if any(not path.exists() for path in self.source.files()):
            self.source.prepare()
        return self._source_facts(verify=self.verify)

    def _source_facts(self, *, verify: bool) -> dict[str, Any]:
        hashes = FileHashes(self._folder / "files", verify=verify)
        return {"layout": LAYOUT, "libraries": library_facts(), "source": source_facts(self.source, hashes)}

    @property
    def class_names(self) -> list[str]:
        """Names of the classes 0, 1, ..."""
        return self.source.class_names if _says_class_names(self.source) else self.table.class_names

    @property
    def rows(self) -> Mapping[str, Rows]:
        """split -> rows, as the source loads them. `release` frees the rows."""
        if self._loaded is None:
            self.source.prepare()
            self.source.work_folder = self.cache.folder
            self._loaded = self.source.row_streams() or self.source.load()
        return self._loaded

    def release(self) -> None:
        """Frees the rows that were loaded for encoding."""
        if self._loaded is not None:
            self._loaded = None
            self.source.release()
            gc.collect()
            pa.default_memory_pool().release_unused()
            with contextlib.suppress(OSError, AttributeError):  # only the GNU C library has malloc_trim
                ctypes.CDLL(None).malloc_trim(0)

    @cached_property
    def table(self) -> SourceTable:
        """The classes and splits of the source. The rows are loaded only if no earlier process has stored the table."""
        file = self._folder / "sources" / f"{key_of(self.facts)}.json"

        def make() -> SourceTable:
            table = SourceTable.of(self.source, self.rows)
            self._check_unchanged()
            table.write(file)
            return table

        name = type(self.source).__name__
        encoded = found_or_made(
            lambda: SourceTable.read(file),
            make,
            file.with_suffix(".lock"),
            waiting=f"waiting for another process to load {name}",
        )
        for line in unsaid(encoded.warnings()) if rank() == 0 else []:
            warnings.warn(line, stacklevel=1)
        if not _says_class_names(self.source):
            self.source.class_names = encoded.class_names  # the source can name them now without loading its rows
        return encoded

    def fit_encoder(self, index: np.ndarray | None) -> None:
        """Lets the encoder learn from the source, for example a vocabulary, and stores the result for later processes.

        Args:
            index: row numbers of the training rows to learn from, ascending; None if there is no split "train".

        Raises:
            NoTrainingRows: the encoder needs training rows, but there are none.
            ValueError: the vocabulary is empty.
        """
        rows_hash = None if index is None else _hash_of(index)
        facts = {**self.facts, "encoder": encoder_key_facts(self.encoder), "index": rows_hash}
        file = self._folder / "words" / f"{key_of(facts)}.json"

        def make() -> dict[str, Any]:
            others = [rows for split, rows in self.rows.items() if split != "train"]
            self.encoder.take_classes(self.class_names, (row["text"] for rows in others for row in read_rows(rows)))
            if self.encoder.needs_fit:
                if index is None:
                    raise NoTrainingRows(
                        f"the encoder learns from the split 'train', but {type(self.source).__name__} only has the "
                        f"splits {', '.join(self.table.num_rows)}: give the encoder fixed words or shots"
                    )
                self.encoder.fit(read_rows(self.rows["train"], index))
            write_json(file, state := self.encoder.state_dict())
            return state

        state = found_or_made(
            lambda: read_json(file) if file.is_file() else None,
            make,
            file.with_suffix(".lock"),
            waiting="waiting for another process to build the vocabulary",
        )
        if self.encoder.needs_fit:
            self.encoder.load_state_dict(state)

    def choose(self, split: str, max_rows: int | None, seed: int, *, stratify: bool = False) -> np.ndarray:
        """Returns the row numbers of `max_rows` randomly chosen rows of a split, ascending; of all rows if it is None.

        If `stratify`, the choice keeps the share of each class. It reads and checks all rows once, and is stored for
        later processes.

        Raises:
            ValueError: `stratify` is true, and rows of the source may have several labels, or a row breaks the format
                of TextSource.
        """
        num_rows = self.table.num_rows[split]
        if not stratify or max_rows is None or max_rows >= num_rows:
            return choose_rows(num_rows, max_rows, (seed, num_rows))
        if self.source.multilabel:
            raise ValueError(
                f"stratify is true, but rows of {type(self.source).__name__} may have several labels: set "
                "data.init_args.stratify to false"
            )
        code = code_hash(choose_stratified_rows)
        facts = {**self.facts, "split": split, "choice": [max_rows, seed], "code": code}
        file = self._folder / "choices" / f"{key_of(facts)}.json"

        def make() -> dict[str, list[int]]:
            labels = np.array([row["labels"] for row in self._checked(split, None, "reading the labels of")])
            chosen = {"rows": choose_stratified_rows(labels, max_rows, (seed, num_rows)).tolist()}
            write_json(file, chosen)
            return chosen

        stored = found_or_made(
            lambda: read_json(file) if file.is_file() else None,
            make,
            file.with_suffix(".lock"),
            waiting=f"waiting for another process to choose rows of {split}",
        )
        return np.array(stored["rows"])

    def corpus(self, split: str, index: np.ndarray | None = None) -> Corpus:
        """Returns the encoded rows of a split.

        Args:
            split: name of the split.
            index: row numbers of the rows to encode, ascending; None for all rows of the split. If these rows are less
                than a quarter of the split, the corpus has only these rows; otherwise it has all rows of the split.

        Raises:
            ValueError: a row breaks the format of TextSource, or the disk is full.
        """
        num_rows = self.table.num_rows[split]
        is_part = index is not None and FEWEST_OF_A_VIEW * len(index) < num_rows
        chosen = index if is_part and index is not None else np.arange(num_rows)
        encoder = self._encoder_of(split)
        facts = {
            **self.facts,
            "encoder": encoder_key_facts(encoder),
            "split": split,
            "index": _hash_of(chosen) if is_part else None,
        }

        def make(folder: Path) -> Corpus:
            return write_corpus(
                folder,
                self._checked(split, chosen if is_part else None),
                encoder,
                index=chosen,
                columns=self.table.columns[split],
                multilabel=self.source.multilabel,
                facts={"class_names": self.table.class_names, "configuration": self.configuration, **facts},
            )

        encoded = self.cache.find_or_make(facts, make, split)
        if self.verify and not encoded.is_whole():
            set_aside(encoded.folder)
            encoded = self.cache.find_or_make(facts, make, split)
        return encoded

    def _encoder_of(self, split: str) -> Encoder:
        limit = self.source.max_lengths.get(split)
        if limit is None:
            return self.encoder
        try:
            return self.encoder.with_max_length(limit)
        except ValueError as error:
            raise ValueError(f"`max_lengths` has {limit} for {split}: {error}") from None

    def _checked(self, split: str, index: np.ndarray | None, doing: str = "encoding") -> Iterator[dict[str, Any]]:
        rows = self.rows[split]
        check_split(split, rows.column_names, len(rows), self.source)
        num_classes, multilabel = len(self.table.class_names), self.source.multilabel
        counted = Counted(f"{doing} {split}", len(rows) if index is None else len(index))
        for row in counted.over(read_rows(rows, index), lambda row: 1):
            check_example(row, split, num_classes, multilabel)
            yield row
        self._check_unchanged()  # if the files changed, an error is raised before the corpus gets its final name

    def _check_unchanged(self) -> None:
        if self._source_facts(verify=False) != self.facts:
            raise ValueError(
                f"the files of {type(self.source).__name__} changed while they were read: wait until they "
                "stay unchanged, and run this again"
            )


def _says_class_names(source: TextSource) -> bool:
    """Returns whether a source can name its classes without loading its rows."""
    attribute = getattr(type(source), "class_names", None)
    return "class_names" in vars(source) or not isinstance(attribute, cached_property)


def _hash_of(index: np.ndarray) -> str:
    return hashlib.sha256(index.astype("<i8").tobytes()).hexdigest()[:20]
