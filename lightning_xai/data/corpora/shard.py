"""One file of a corpus, with its blocks of rows. Tokens are read as numpy views of a memory map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa


class Shard:
    """The blocks of rows in one file, read from a memory map.

    After the first read of a block, only the positions of its arrays in the file stay in memory (72 bytes). Arrow's
    objects would need 11 KB per block, and a corpus of long documents has many blocks.

    Args:
        file: the file that CorpusWriter has written.
        num_blocks: number of blocks in the file.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.corpora.cache import write_corpus
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> examples = [{"text": "w1", "labels": 0, "id": "a"}, {"text": "w2 w3", "labels": 1, "id": "b"}]
        >>> corpus = write_corpus(Path(tempfile.mkdtemp(), "corpus"), examples, VocabularyEncoder(words=95))
        >>> shard = Shard(corpus.folder / "tokens-00000.arrow", num_blocks=1)
        >>> shard.arrays(0, num_rows=2)["bounds"].tolist(), shard.batch(0).column("text").to_pylist()
        ([0, 3, 7], ['w1', 'w2 w3'])
    """

    def __init__(self, file: Path, num_blocks: int) -> None:
        stream = pa.memory_map(str(file))
        self._begin = stream.read_buffer(1).address
        self._reader = pa.ipc.open_file(stream)
        self._bytes = np.asarray(np.memmap(file, np.uint8, "r"))
        self._places = np.full((num_blocks, len(_ARRAYS)), _UNKNOWN)

    def batch(self, block: int) -> pa.RecordBatch:
        """Returns the columns of the block with index `block`, including the texts."""
        return self._reader.get_batch(block)

    def arrays(self, block: int, num_rows: int) -> dict[str, np.ndarray]:
        """Returns the arrays of the block with index `block`, under the names that a TokenTable gives them.

        Args:
            block: index of the block.
            num_rows: number of rows in the block.
        """
        if self._places[block, 0] == _UNKNOWN:
            addresses = [_address(array) for array in _arrays_of(self.batch(block))]
            self._places[block] = [0 if address is None else address - self._begin for address in addresses]
        places = dict(zip(_ARRAYS, self._places[block].tolist(), strict=True))

        def view(name: str, count: int) -> np.ndarray:
            begin, kind = places[name], _ARRAYS[name]
            return self._bytes[begin : begin + count * kind.itemsize].view(kind)

        bounds, run_bounds, cut_bounds = (view(name, num_rows + 1) for name in ("bounds", "run_bounds", "cut_bounds"))
        num_tokens = int(bounds[-1])
        return {
            "bounds": bounds,
            "input_ids": view("input_ids", num_tokens),
            "word_ids": view("word_ids", num_tokens),
            "flags": view("flags", num_tokens),
            "offsets": view("offsets", 2 * num_tokens).reshape(-1, 2),
            "run_bounds": run_bounds,
            "runs": view("runs", 3 * int(run_bounds[-1])).reshape(-1, 3),
            "cut_bounds": cut_bounds,
            "cut": view("cut", 2 * int(cut_bounds[-1])).reshape(-1, 2),
        }


_UNKNOWN = -1  # stands for the positions of a block's arrays until the block is read for the first time
_INT, _BYTE = np.dtype(np.int32), np.dtype(np.uint8)
_ARRAYS: dict[str, np.dtype[Any]] = {  # in the order in which `_arrays_of` returns the arrays
    "bounds": _INT, "input_ids": _INT, "word_ids": _INT, "flags": _BYTE, "offsets": _INT,
    "run_bounds": _INT, "runs": _INT, "cut_bounds": _INT, "cut": _INT,
}  # fmt: skip


def _arrays_of(batch: pa.RecordBatch) -> list[pa.Array]:
    tokens, evidence, cut = (batch.column(name) for name in ("input_ids", "evidence", "evidence_cut"))
    words, flags, offsets = (batch.column(name).values for name in ("word_ids", "flags", "offsets"))
    arrays = [tokens.offsets, tokens.values, words, flags, offsets.values]
    return [*arrays, evidence.offsets, evidence.values.values, cut.offsets, cut.values.values]


def _address(array: pa.Array) -> int | None:
    """Returns the memory address of an array's first value, or None if the array is empty."""
    address: int = array.to_numpy(zero_copy_only=True).ctypes.data
    return address if len(array) else None
