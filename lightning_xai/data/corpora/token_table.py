"""The tokens of many examples in flat arrays. Corpus files and batches have this layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lightning_xai.data.encoded import Encoded
from lightning_xai.functional.text.spans import runs_from_mask

SPECIAL, EXPLAINED, SECOND_TEXT, PROMPT = 1, 2, 4, 8  # bits of a token's flags
TYPE_BITS = 4  # bits 4 and above hold the token type
MOST_TYPES = 1 << (8 - TYPE_BITS)


@dataclass(frozen=True)
class TokenTable:
    """The N tokens of R examples in flat arrays, with their M runs of evidence tokens.

    Q is the number of pairs (example, class) whose evidence tokens were all truncated.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> table = VocabularyEncoder(words=95).encode_table([{"text": "w1"}, {"text": "w2 w3"}])
        >>> len(table), table.bounds.tolist(), table.input_ids.tolist()
        (2, [0, 3, 7], [1, 6, 2, 1, 7, 8, 2])
    """

    bounds: np.ndarray  # [R + 1] int; example r has the tokens from bounds[r] to bounds[r + 1]
    input_ids: np.ndarray  # [N] int32
    word_ids: np.ndarray  # [N] int32, as in Encoded
    flags: np.ndarray  # [N] uint8: SPECIAL, EXPLAINED, SECOND_TEXT, PROMPT, and the token type in the higher bits
    offsets: np.ndarray | None  # [N, 2] int32, character offsets, as in Encoded; None in a batch, which needs none
    run_bounds: np.ndarray  # [R + 1] int; example r has the rows of `runs` from run_bounds[r] to run_bounds[r + 1]
    # [M, 3] int32, runs of evidence tokens: class, position of the first token, and position after the last token.
    # Positions are counted within the example. The runs of an example are sorted by class
    runs: np.ndarray
    cut_bounds: np.ndarray  # [R + 1] int; example r has the rows of `cut` from cut_bounds[r] to cut_bounds[r + 1]
    # [Q, 2] int32: a class whose evidence tokens were all truncated, and the number of these tokens. The rows of an
    # example are sorted by class
    cut: np.ndarray
    evidence_kept: np.ndarray  # [R] float64, fraction of evidence characters not truncated; NaN without evidence
    truncated: np.ndarray  # [R] bool
    fill_token_id: int
    has_types: bool

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def lengths(self) -> np.ndarray:
        """[R] number of tokens of each example."""
        return np.diff(self.bounds)

    @property
    def explained(self) -> np.ndarray:
        """[N] bool, True where a token may be explained and erased."""
        return (self.flags & EXPLAINED) != 0

    @classmethod
    def of(cls, encoded: Sequence[Encoded]) -> TokenTable:
        """Returns a table of the given examples.

        Raises:
            ValueError: `baseline_ids` is not the same fill token wherever `token_mask` is True, or differs from
                `input_ids` where `token_mask` is False; or a token type is too large.
        """
        has_types = any(e.token_type_ids is not None for e in encoded)
        joined = {
            name: np.concatenate([np.asarray(getattr(e, name)) for e in encoded] or [np.zeros(0, dtype=np.int32)])
            for name in ("input_ids", "special_tokens_mask", "token_mask", "baseline_ids", "word_ids", "sequence_ids")
        }
        types = [e.token_type_ids if e.token_type_ids is not None else np.zeros(len(e), np.int8) for e in encoded]
        special, explained = joined["special_tokens_mask"].astype(bool), joined["token_mask"].astype(bool)
        runs = [[runs_of_class(label, mask) for label, mask in sorted(e.rationales.items())] for e in encoded]
        table = cls(
            bounds=bounds_of([len(e) for e in encoded]),
            input_ids=joined["input_ids"].astype(np.int32),
            word_ids=joined["word_ids"].astype(np.int32),
            flags=pack_flags(
                special,
                explained,
                joined["sequence_ids"] == 1,
                np.concatenate([*types, _NO_TOKENS]),
                (joined["sequence_ids"] < 0) & ~special,
            ),
            offsets=np.concatenate([*(e.offsets for e in encoded), np.zeros((0, 2), np.int32)]).astype(np.int32),
            run_bounds=bounds_of([sum(map(len, rows)) for rows in runs]),
            runs=np.concatenate([*(run for rows in runs for run in rows), np.zeros((0, 3), np.int32)]),
            cut_bounds=bounds_of([len(e.evidence_cut) for e in encoded]),
            cut=cut_rows([e.evidence_cut for e in encoded]),
            evidence_kept=np.array([np.nan if e.evidence_kept is None else e.evidence_kept for e in encoded], float),
            truncated=np.array([e.truncated for e in encoded], dtype=bool),
            fill_token_id=int(joined["baseline_ids"][explained][0]) if explained.any() else 0,
            has_types=has_types,
        )
        _check_baseline(table, joined["baseline_ids"], explained)
        return table

    def encoded(self, row: int) -> Encoded:
        """Returns the tokens of one example."""
        assert self.offsets is not None, "tables of batches have no offsets"
        begin, end = self.bounds[row : row + 2].tolist()
        input_ids, flags = np.array(self.input_ids[begin:end]), self.flags[begin:end]
        special, explained = (flags & SPECIAL) != 0, (flags & EXPLAINED) != 0
        second = ((flags & SECOND_TEXT) != 0).astype(np.int8)
        kept = float(self.evidence_kept[row])
        return Encoded(
            input_ids=input_ids,
            special_tokens_mask=special,
            token_mask=explained,
            baseline_ids=np.where(explained, np.int32(self.fill_token_id), input_ids),
            word_ids=np.array(self.word_ids[begin:end]),
            sequence_ids=np.where(special | ((flags & PROMPT) != 0), np.int8(-1), second),
            offsets=np.array(self.offsets[begin:end]),
            token_type_ids=(flags >> TYPE_BITS).astype(np.int8) if self.has_types else None,
            rationales=_masks(self.runs[slice(*self.run_bounds[row : row + 2].tolist())], end - begin),
            evidence_kept=None if np.isnan(kept) else kept,
            truncated=bool(self.truncated[row]),
            evidence_cut=dict(self.cut[slice(*self.cut_bounds[row : row + 2].tolist())].tolist()),
        )


_NO_TOKENS = np.zeros(0, dtype=np.int8)


def bounds_of(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns bounds [R + 1] from the lengths [R] of R examples: example r lies from bounds[r] to bounds[r + 1].

    Example:
        >>> bounds_of([3, 4]).tolist()
        [0, 3, 7]
    """
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))])


def pack_flags(
    special: np.ndarray,
    explained: np.ndarray,
    second: np.ndarray,
    types: np.ndarray,
    prompt: np.ndarray | Literal[False] = False,
) -> np.ndarray:
    """Returns the flags [N] uint8 of tokens.

    Args:
        special: [N] bool, True at special tokens.
        explained: [N] bool, True at tokens that may be explained and erased.
        second: [N] bool, True at tokens of the second text of a pair.
        types: [N] token types.
        prompt: [N] bool, True at tokens of a prompt around the text; or the single value False if there is no prompt.

    Raises:
        ValueError: a token type is too large to share a byte with the other flags.

    Example:
        >>> no, yes = np.array([False]), np.array([True])
        >>> pack_flags(no, yes, no, np.array([1])).tolist()
        [18]
    """
    if len(types) and not 0 <= int(types.min()) <= int(types.max()) < MOST_TYPES:
        raise ValueError(
            f"token type {int(types.max())} cannot be stored: the encoder may have at most {MOST_TYPES} token types"
        )
    flags = special * SPECIAL + explained * EXPLAINED + second * SECOND_TEXT + prompt * PROMPT
    return (flags + (types.astype(np.int64) << TYPE_BITS)).astype(np.uint8)


def take_rows(tables: Sequence[TokenTable], rows: Sequence[int]) -> TokenTable:
    """Returns a table of some examples: for each i, example `rows[i]` of `tables[i]`. The table has no offsets.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> table = VocabularyEncoder(words=95).encode_table([{"text": "w1"}, {"text": "w2 w3"}])
        >>> take_rows([table, table], [1, 0]).input_ids.tolist()
        [1, 7, 8, 2, 1, 6, 2]
    """
    parts = list(zip(tables, rows, strict=True))
    tokens = [(table, slice(*table.bounds[row : row + 2].tolist())) for table, row in parts]
    runs = [table.runs[slice(*table.run_bounds[row : row + 2].tolist())] for table, row in parts]
    cut = [table.cut[slice(*table.cut_bounds[row : row + 2].tolist())] for table, row in parts]
    return TokenTable(
        bounds=bounds_of([part.stop - part.start for _, part in tokens]),
        input_ids=np.concatenate([table.input_ids[part] for table, part in tokens]),
        word_ids=np.concatenate([table.word_ids[part] for table, part in tokens]),
        flags=np.concatenate([table.flags[part] for table, part in tokens]),
        offsets=None,
        run_bounds=bounds_of([len(part) for part in runs]),
        runs=np.concatenate(runs),
        cut_bounds=bounds_of([len(part) for part in cut]),
        cut=np.concatenate(cut),
        evidence_kept=np.array([table.evidence_kept[row] for table, row in parts]),
        truncated=np.array([table.truncated[row] for table, row in parts]),
        fill_token_id=tables[0].fill_token_id,
        has_types=tables[0].has_types,
    )


def runs_of_class(label: int, mask: np.ndarray) -> np.ndarray:
    """Returns the rows [M, 3] of `TokenTable.runs` for a class with the evidence `mask` [T].

    If `mask` is nowhere True, the result is one empty run, so that the class is not lost.

    Example:
        >>> runs_of_class(7, np.array([False, True, True])).tolist()
        [[7, 1, 3]]
    """
    runs = runs_from_mask(mask)
    runs = runs if len(runs) else np.zeros((1, 2), dtype=np.int64)
    return np.column_stack([np.full(len(runs), label), runs]).astype(np.int32)


def cut_rows(examples: Sequence[Mapping[int, int]]) -> np.ndarray:
    """Returns `TokenTable.cut` [Q, 2]: each class whose evidence was all truncated, and its number of evidence tokens.

    Args:
        examples: for each example, class -> number of truncated evidence tokens (`Encoded.evidence_cut`).

    Example:
        >>> cut_rows([{7: 3}, {}, {2: 1}]).tolist()
        [[7, 3], [2, 1]]
    """
    rows = [row for cut in examples for row in sorted(cut.items())]
    return np.array(rows, dtype=np.int32).reshape(-1, 2)


def _masks(runs: np.ndarray, length: int) -> dict[int, np.ndarray]:
    """Returns class -> evidence mask [T] bool, from the rows of `TokenTable.runs` for an example of `length` tokens."""
    masks: dict[int, np.ndarray] = {}
    for label, begin, end in runs.tolist():
        masks.setdefault(label, np.zeros(length, dtype=bool))[begin:end] = True
    return masks


def _check_baseline(table: TokenTable, baseline_ids: np.ndarray, explained: np.ndarray) -> None:
    expected = np.where(explained, table.fill_token_id, table.input_ids)
    # examples with erased tokens pass this check, too: an erased token is the fill token in input_ids and baseline_ids
    if not np.array_equal(expected, baseline_ids):
        raise ValueError(
            "an encoder's baseline_ids must be the same fill token wherever token_mask is True, and input_ids "
            "elsewhere: correct encode_batch"
        )
