"""Reads an encoded corpus from memory maps, so that all processes on a machine share its memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lightning_xai.data.batches.items import Labels
from lightning_xai.data.corpora.shard import Shard
from lightning_xai.data.corpora.token_table import TokenTable, bounds_of, take_rows
from lightning_xai.data.corpora.writer import MANIFEST, ROWS_FILE, TEXT_COLUMNS, shard_name
from lightning_xai.data.encoded import Encoded
from lightning_xai.functional.model_files.file_digest import sha256_of
from lightning_xai.runs.files.whole_files import read_json

MOST_TABLES = 1024  # largest number of token tables in memory; a table has views of one block's arrays, and needs 3 KB


class Corpus:
    """The encoded rows of one split. Pickling stores only the folder, so another process opens the files again.

    Args:
        folder: folder with the manifest and the files that a CorpusWriter wrote.

    Attributes:
        manifest: facts about the rows, as `CorpusWriter.finish` returns them, and about their source and encoder.
        index: [R] row number of each row in the full split, in ascending order.
        lengths: [R] number of tokens in each row.
        ordinary: [R] number of tokens in each row that are not special.
        unknown: [R] number of unknown tokens in each row, special tokens excluded.
        evidence_kept: [R] fraction of each row's evidence characters that were not truncated; NaN without evidence.
        truncated: [R] 1 for truncated rows, 0 for other rows.
        evidence_runs: [R] number of runs of consecutive evidence tokens in each row.

    Raises:
        ValueError: a file is missing, or its size differs from the manifest.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.corpora.cache import write_corpus
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> examples = [{"text": "w1", "labels": 0, "id": "a"}, {"text": "w2 w3", "labels": 1, "id": "b"}]
        >>> corpus = write_corpus(Path(tempfile.mkdtemp(), "corpus"), examples, VocabularyEncoder(words=95))
        >>> corpus.lengths.tolist(), corpus.example(1), corpus.encoded(0).input_ids.tolist()
        ([3, 4], {'text': 'w2 w3', 'labels': 1, 'id': 'b'}, [1, 6, 2])
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        blocks = self.manifest["blocks"]  # one list per shard: the number of rows in each of its blocks
        self._starts = bounds_of([size for sizes in blocks for size in sizes])  # first row of each block
        self._first_blocks = bounds_of([len(sizes) for sizes in blocks])  # index of each shard's first block
        self._tables: dict[int, TokenTable] = {}  # block -> its token table, for blocks that were read recently
        self._shards = [Shard(folder / shard_name(number), len(sizes)) for number, sizes in enumerate(blocks)]
        rows = pa.ipc.open_file(pa.memory_map(str(folder / ROWS_FILE))).get_batch(0)
        columns = {name: rows.column(name) for name in rows.schema.names}
        self._labels = columns.pop("labels")
        views = {name: column.to_numpy(zero_copy_only=True) for name, column in columns.items()}
        self.index, self.lengths = views["index"], views["length"]
        self.ordinary, self.unknown = views["ordinary"], views["unknown"]
        self.evidence_kept, self.truncated = views["evidence_kept"], views["truncated"]
        self.evidence_runs = views["evidence_runs"]

    def __reduce__(self) -> tuple[type[Corpus], tuple[Path]]:
        return Corpus, (self.folder,)

    def __len__(self) -> int:
        return int(self.manifest["rows"])

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the source's rows have."""
        return list(self.manifest["columns"])

    def labels(self, rows: Sequence[int] | np.ndarray) -> list[Labels]:
        """Returns the labels of some rows."""
        if not self.manifest["multilabel"]:
            return list(self._labels.to_numpy(zero_copy_only=True)[rows].tolist())
        bounds = self._labels.offsets.to_numpy(zero_copy_only=True)
        values = self._labels.values.to_numpy(zero_copy_only=True)
        return [values[bounds[row] : bounds[row + 1]].tolist() for row in np.asarray(rows).tolist()]

    def take(self, rows: Sequence[int] | np.ndarray) -> TokenTable:
        """Returns the tokens of some rows, without offsets."""
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        places = (np.asarray(rows) - self._starts[numbers]).tolist()
        return take_rows([self._table(number) for number in numbers.tolist()], places)

    def encoded(self, row: int) -> Encoded:
        """Returns the tokens of one row, with their offsets into the text."""
        number = self._block(row)
        return self._table(number).encoded(row - int(self._starts[number]))

    def example(self, row: int) -> dict[str, Any]:
        """Returns a row with the columns of TextSource."""
        number = self._block(row)
        shard, block = self._place(number)
        batch, place = self._shards[shard].batch(block), row - int(self._starts[number])
        return {
            name: batch.column(name)[place].as_py() if name in TEXT_COLUMNS else self.labels([row])[0]
            for name in self.columns
        }

    def is_whole(self) -> bool:
        """Returns whether the contents of all files have the hashes in the manifest."""
        return all(sha256_of(self.folder / name) == facts["sha256"] for name, facts in self.manifest["files"].items())

    def _block(self, row: int) -> int:
        """Returns the index of the block that contains a row. Blocks are counted over all shards."""
        return int(np.searchsorted(self._starts, row, side="right")) - 1

    def _place(self, number: int) -> tuple[int, int]:
        """Returns the shard of a block, and the block's index within the shard."""
        shard = int(np.searchsorted(self._first_blocks, number, side="right")) - 1
        return shard, number - int(self._first_blocks[shard])

    def _table(self, number: int) -> TokenTable:
        if (known := self._tables.get(number)) is not None:
            return known
        if len(self._tables) >= MOST_TABLES:
            self._tables.clear()
        shard, block = self._place(number)
        begin, end = self._starts[number : number + 2].tolist()
        self._tables[number] = table = TokenTable(
            **self._shards[shard].arrays(block, end - begin),
            evidence_kept=self.evidence_kept[begin:end],
            truncated=self.truncated[begin:end].view(bool),
            fill_token_id=int(self.manifest["fill_token_id"]),
            has_types=bool(self.manifest["has_types"]),
        )
        return table


def read_manifest(folder: Path) -> dict[str, Any]:
    """Returns the manifest of a corpus, after checking the sizes of its files.

    Raises:
        ValueError: the manifest is missing or damaged, or another file is missing or does not have the size that the
            manifest gives.

    Example:
        >>> read_manifest(Path("no/such/corpus"))
        Traceback (most recent call last):
        ValueError: no/such/corpus has no manifest.json: the corpus was removed, so start the command again
    """
    if not (folder / MANIFEST).is_file():
        raise ValueError(f"{folder} has no {MANIFEST}: the corpus was removed, so start the command again")
    manifest = read_json(folder / MANIFEST)
    for name, facts in manifest["files"].items():
        file = folder / name
        size = file.stat().st_size if file.is_file() else None
        if size != facts["bytes"]:
            raise ValueError(
                f"{file} has {size} bytes, not {facts['bytes']}: remove {folder}, and start the command again"
            )
    return manifest
