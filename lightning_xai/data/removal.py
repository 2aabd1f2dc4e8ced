"""Removes the erased tokens of an example whenever the example is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lightning_xai.data.corpora.token_table import TokenTable, bounds_of
from lightning_xai.data.encoded import Encoded
from lightning_xai.runs.stores.store import RaggedStore

Removal = Literal["mask", "delete", "positions"]
KEY = 0  # keys in a store are (example, class); since an erasure has no class, the class in its key is 0


def remove_tokens(
    table: TokenTable, keep: np.ndarray, removal: Removal, *, unk_token_id: int | None = None
) -> TokenTable:
    """Returns the examples after the removal of all tokens outside `keep`.

    Args:
        table: tokens of the examples.
        keep: [N] bool, False at the tokens to remove.
        removal: "mask" replaces removed tokens by the fill token. "delete" drops removed tokens from all arrays.
            "positions" replaces removed tokens by the fill token. All other tokens that may be erased become the
            unknown token, so that a model sees only which positions are kept.
        unk_token_id: id of the unknown token; only "positions" needs it.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> table = VocabularyEncoder(words=95).encode_table([{"text": "w0 w1"}, {"text": "w2"}])
        >>> keep = np.array([True, False, True, True, True, True, True])
        >>> shorter = remove_tokens(table, keep, "delete")
        >>> shorter.input_ids.tolist(), shorter.bounds.tolist()
        ([1, 6, 2, 1, 7, 2], [0, 3, 6])
    """
    if removal != "delete":
        input_ids = np.where(table.explained & ~keep, np.int32(table.fill_token_id), table.input_ids)
        if removal == "positions":
            assert unk_token_id is not None, "check_removal refuses encoders without an unknown token"
            input_ids = np.where(table.explained & keep, np.int32(unk_token_id), input_ids)
        return replace(table, input_ids=input_ids)
    kept_before = bounds_of(keep)  # [N + 1] entry i is the number of kept tokens among the first i tokens
    bounds = kept_before[table.bounds]
    row = np.repeat(np.arange(len(table)), np.diff(table.run_bounds))  # [M] example of each run of evidence tokens
    runs = table.runs.copy()
    runs[:, 1:] = kept_before[table.runs[:, 1:] + table.bounds[row][:, None]] - bounds[row][:, None]
    return replace(
        table,
        bounds=bounds,
        input_ids=table.input_ids[keep],
        word_ids=table.word_ids[keep],
        flags=table.flags[keep],
        offsets=None if table.offsets is None else table.offsets[keep],
        runs=runs,
    )


class StoredErasures:
    """The tokens to remove from the examples of a split, read from a store.

    If this object is sent to another process, that process opens the store again.

    Args:
        path: folder of the store, which has, for each example, a row [T] under the key (index, KEY): 1 for a token to
            erase, 0 for a token that stays.
        removal, unk_token_id: as in `remove_tokens`.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> from lightning_xai.runs.stores.store import RaggedWriter
        >>> folder = tempfile.mkdtemp()
        >>> with RaggedWriter(folder, bits=True) as writer:
        ...     writer.add(7, KEY, np.array([0, 1, 0]))
        >>> encoded = VocabularyEncoder(words=95).encode({"text": "w1"})
        >>> StoredErasures(Path(folder), "mask").of_example(encoded, 7).input_ids.tolist()
        [1, 3, 2]
    """

    def __init__(self, path: Path, removal: Removal, unk_token_id: int | None = None) -> None:
        self.path = path
        self.removal: Removal = removal
        self.unk_token_id = unk_token_id
        self._store: RaggedStore | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_store": None}

    @property
    def store(self) -> RaggedStore:
        """The store, opened at the first use."""
        if self._store is None:
            self._store = RaggedStore(self.path)
        return self._store

    def keep(self, index: int) -> np.ndarray:
        """Returns [T] bool, False at erased tokens of the example. Raises KeyError if the store lacks the example."""
        return self.store.get(index, KEY) <= 0.5

    def applied(self, table: TokenTable, index: np.ndarray) -> TokenTable:
        """Returns the examples of `table` after erasure. `index` [R] is the index of each example in the full split."""
        keep = np.concatenate([self.keep(number) for number in index.tolist()])
        return remove_tokens(table, keep, self.removal, unk_token_id=self.unk_token_id)

    def of_example(self, encoded: Encoded, index: int) -> Encoded:
        """Returns the tokens of an example after erasure. `index` is the index of the example in the full split."""
        return self.applied(TokenTable.of([encoded]), np.array([index])).encoded(0)
