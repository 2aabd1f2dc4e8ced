"""Writes the encoded rows of a split as Arrow IPC files.

A corpus is a folder with three kinds of files: a manifest; shards of tokens and texts ("tokens-00000.arrow", ...); and
"rows.arrow", which has one entry per row in each column. Values are not compressed, so that they can be read through
memory maps.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from lightning_xai.data.corpora.token_table import SPECIAL, TokenTable, bounds_of
from lightning_xai.functional.model_files.file_digest import sha256_of

MANIFEST = "manifest.json"
ROWS_FILE = "rows.arrow"
SHARD_TOKENS = 1 << 26  # largest number of tokens in a shard
TEXT_COLUMNS = {  # column of a shard that is read one row at a time -> its Arrow type
    "text": pa.string(),
    "text_pair": pa.string(),
    "rationales": pa.list_(pa.struct({"label": pa.int64(), "spans": pa.list_(pa.list_(pa.int64()))})),
    "id": pa.string(),
}


def shard_name(number: int) -> str:
    """Returns the name of a shard's file.

    Example:
        >>> shard_name(3)
        'tokens-00003.arrow'
    """
    return f"tokens-{number:05}.arrow"


class CorpusWriter:
    """Writes the rows of a split into a folder, block by block.

    Args:
        folder: an existing folder.
        index: [R] row number of each row in the full split.
        columns: names of the columns that the rows have, as in TextSource.
        multilabel: whether the labels of a row are a list.
        unk_token_id: id of the unknown token, whose occurrences are counted; None if the vocabulary lacks it.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> folder, examples = Path(tempfile.mkdtemp()), [{"text": "w1", "labels": 0, "id": "a"}]
        >>> writer = CorpusWriter(folder, np.array([0]), ["text", "labels", "id"], multilabel=False, unk_token_id=4)
        >>> writer.add(VocabularyEncoder(words=95).encode_table(examples), examples)
        >>> facts = writer.finish()
        >>> facts["rows"], facts["tokens"], sorted(file.name for file in folder.iterdir())
        (1, 3, ['rows.arrow', 'tokens-00000.arrow'])
    """

    def __init__(
        self, folder: Path, index: np.ndarray, columns: Sequence[str], *, multilabel: bool, unk_token_id: int | None
    ) -> None:
        self.folder = folder
        self.multilabel, self.unk_token_id = multilabel, unk_token_id
        self.columns = [*TEXT_COLUMNS, "labels"]
        self.columns = [name for name in columns if name in self.columns]
        self._index = index
        self._digest = hashlib.sha256(index.astype("<i8").tobytes())
        self._blocks: list[list[int]] = []  # one list per shard: the number of rows in each of its blocks
        self._stream: BinaryIO | None = None
        self._file: pa.RecordBatchFileWriter | None = None
        self._shard_tokens = self._tokens = 0
        self._form: tuple[int, bool] | None = None  # (id of the fill token, whether there are token types)
        self._rows: dict[str, list[np.ndarray]] = {}
        self._labels: list[pa.Array] = []
        self._classes: Counter[int] = Counter()
        self._num_rows = 0  # number of rows that were added
        self._unlabeled: list[int] = []  # row numbers, one for each rationale whose class is not a label of the row

    def add(self, table: TokenTable, examples: Sequence[dict[str, Any]]) -> None:
        """Appends a block of rows.

        Raises:
            ValueError: the encoder changed its fill token or its token types between two blocks.
        """
        form = (table.fill_token_id if table.explained.any() else -1, table.has_types)
        self._form = self._form or form
        if form[1] != self._form[1] or -1 not in (form[0], self._form[0]) and form[0] != self._form[0]:
            raise ValueError(
                "within a split, the pair (id of the fill token, whether there are token types) changed from "
                f"{self._form} to {form}: correct the encoder"
            )
        self._form = max(self._form, form)
        batch = self._batch(table, examples)
        num_tokens = len(table.input_ids)
        if self._file is None or self._shard_tokens + num_tokens > SHARD_TOKENS:
            self._next_shard(batch.schema)
        assert self._file is not None
        self._file.write_batch(batch)
        self._blocks[-1].append(len(table))
        self._shard_tokens += num_tokens
        self._tokens += num_tokens
        self._add_rows(table)
        labels = [example["labels"] for example in examples]
        self._labels.append(pa.array(labels, pa.list_(pa.int32()) if self.multilabel else pa.int64()))
        self._classes.update(label for row in labels for label in (row if self.multilabel else [row]))
        for example, index in zip(
            examples, self._index[self._num_rows : self._num_rows + len(examples)].tolist(), strict=True
        ):
            given = example["labels"] if self.multilabel else [example["labels"]]
            for rationale in example.get("rationales") or []:
                if len(rationale["spans"]) and rationale["label"] not in given:
                    self._unlabeled.append(index)
        self._num_rows += len(examples)
        for begin, end in zip(table.bounds[:-1].tolist(), table.bounds[1:].tolist(), strict=True):
            self._digest.update(table.input_ids[begin:end].astype("<i4").tobytes() + b"\0")

    def close(self) -> None:
        """Closes the file of the last shard."""
        file, stream = self._file, self._stream
        self._file = self._stream = None
        if file is not None and stream is not None:
            with stream:
                file.close()

    def finish(self) -> dict[str, Any]:
        """Closes the last shard, writes rows.arrow, and returns facts about the rows, for the manifest."""
        self.close()
        rows = {name: np.concatenate(parts) for name, parts in self._rows.items()}
        arrays = {"index": pa.array(self._index), "labels": pa.concat_arrays(self._labels)}
        arrays |= {name: pa.array(values) for name, values in rows.items()}
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        with (self.folder / ROWS_FILE).open("wb") as stream, pa.ipc.new_file(stream, batch.schema) as file:
            file.write_batch(batch)
        names = [ROWS_FILE, *(shard_name(number) for number in range(len(self._blocks)))]
        assert self._form is not None, "a corpus has at least one row"
        return {
            "rows": len(self._index),
            "tokens": self._tokens,
            "columns": self.columns,
            "multilabel": self.multilabel,
            "fill_token_id": max(self._form[0], 0),
            "has_types": self._form[1],
            "examples_hash": self._digest.hexdigest()[:12],
            "class_counts": {str(label): self._classes[label] for label in sorted(self._classes)},
            "unlabeled_rationales": len(self._unlabeled),
            "first_unlabeled_rationale": min(self._unlabeled, default=None),
            "blocks": self._blocks,
            "files": {
                name: {"bytes": (self.folder / name).stat().st_size, "sha256": sha256_of(self.folder / name)}
                for name in names
            },
        }

    def _batch(self, table: TokenTable, examples: Sequence[dict[str, Any]]) -> pa.RecordBatch:
        assert table.offsets is not None
        tokens = pa.array(table.bounds, pa.int32())
        arrays = {
            "input_ids": _lists(tokens, pa.array(table.input_ids)),
            "word_ids": _lists(tokens, pa.array(table.word_ids)),
            "flags": _lists(tokens, pa.array(table.flags)),
            "offsets": _lists(tokens, _tuples(table.offsets)),
            "evidence": _lists(pa.array(table.run_bounds, pa.int32()), _tuples(table.runs)),
            "evidence_cut": _lists(pa.array(table.cut_bounds, pa.int32()), _tuples(table.cut)),
        }
        for name, kind in TEXT_COLUMNS.items():
            if name in self.columns:
                arrays[name] = pa.array([example.get(name) for example in examples], kind)
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def _add_rows(self, table: TokenTable) -> None:
        ordinary = (table.flags & SPECIAL) == 0
        unknown = ordinary & (table.input_ids == self.unk_token_id) if self.unk_token_id is not None else 0 * ordinary
        parts = {
            "length": table.lengths.astype(np.int32),
            "ordinary": _sums(ordinary, table.bounds),
            "unknown": _sums(unknown, table.bounds),
            "evidence_kept": table.evidence_kept,
            "truncated": table.truncated.astype(np.uint8),
            "evidence_runs": np.diff(table.run_bounds).astype(np.int32),
        }
        for name, values in parts.items():
            self._rows.setdefault(name, []).append(values)

    def _next_shard(self, schema: pa.Schema) -> None:
        self.close()
        self._stream = (self.folder / shard_name(len(self._blocks))).open("wb")
        self._file = pa.ipc.new_file(self._stream, schema)
        self._blocks.append([])
        self._shard_tokens = 0


def _lists(bounds: pa.Array, values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(bounds, values)


def _tuples(values: np.ndarray) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _sums(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Returns the number of True values in each of R examples, as int32 [R]."""
    totals = bounds_of(values)
    return (totals[bounds[1:]] - totals[bounds[:-1]]).astype(np.int32)
