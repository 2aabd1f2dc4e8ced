"""Computes the columns of a TokenTable from a fast tokenizer's encodings, without a loop over tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from lightning_xai.data.corpora.token_table import bounds_of, cut_rows, runs_of_class
from lightning_xai.functional.text.code_points import are_spaces, code_points, without_spaces, words_begun
from lightning_xai.functional.text.spans import evidence_kept_fraction, marked_tokens, strip_offsets


@dataclass(frozen=True)
class OneSpecialToken:
    """Replaces the encoding of a text from which the tokenizer makes no token. Its only token counts as special.

    Example:
        >>> OneSpecialToken(ids=[4]).word_ids
        (None,)
    """

    ids: Sequence[int]
    overflowing: Sequence[Any] = ()
    special_tokens_mask: Sequence[int] = (1,)
    sequence_ids: Sequence[None] = (None,)
    word_ids: Sequence[None] = (None,)
    offsets: Sequence[tuple[int, int]] = ((0, 0),)
    type_ids: Sequence[int] = (0,)

    def __len__(self) -> int:
        return 1


def joined(lists: Iterable[Iterable[int]], num_values: int) -> np.ndarray:
    """Returns the values of all lists, one after another, as int32 [num_values].

    Example:
        >>> joined([[1, 2], [3]], 3).tolist()
        [1, 2, 3]
    """
    return np.fromiter(chain.from_iterable(lists), np.int32, num_values)


def joined_or_none(lists: Iterable[Iterable[int | None]]) -> np.ndarray:
    """Returns the values of all lists, one after another, as int32, with -1 in place of None.

    Example:
        >>> joined_or_none([[None, 2], [3]]).tolist()
        [-1, 2, 3]
    """
    values = np.array(list(chain.from_iterable(lists)), dtype=np.float64)  # None becomes NaN
    return np.nan_to_num(values, nan=-1.0).astype(np.int32)


def clean_offsets(
    texts: Sequence[str], in_text: np.ndarray, offsets: np.ndarray, *, count_words: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns the tokens' offsets without white space at either end, and the index of the word that each token is in.

    A token that spans several words is in the first of them.

    Args:
        texts: the texts.
        in_text: [N] index, in `texts`, of the text to which each token belongs.
        offsets: [N, 2] character offsets of each token in its text.
        count_words: whether word indices are returned. They count the whitespace words of each text from 0. If False,
            None is returned in their place.

    Example:
        >>> offsets, words = clean_offsets(["so good"], np.array([0, 0]), np.array([[0, 2], [2, 7]]), count_words=True)
        >>> offsets.tolist(), words.tolist()
        ([[0, 2], [3, 7]], [0, 1])
    """
    bounds = bounds_of([len(text) for text in texts])  # where each text starts in the joined text
    begins = bounds[in_text]
    spaces = are_spaces(code_points("".join(texts)))
    stripped = without_spaces(offsets + begins[:, None], spaces)
    if not count_words:
        return stripped - begins[:, None], None
    begun = words_begun(spaces, bounds[:-1])
    last = np.minimum(stripped[:, 0] + 1, bounds[in_text + 1])
    return stripped - begins[:, None], np.maximum(begun[last] - begun[begins] - 1, 0)


def number_pairs(words: np.ndarray, bounds: np.ndarray, second: np.ndarray, rows: Iterable[int]) -> np.ndarray:
    """Returns the word indices [N] of tokens. The second text of an example continues the count of the first text.

    Args:
        words: [N] word indices, counted from 0 in each text; -1 at special tokens.
        bounds: [R + 1] example r has the tokens from bounds[r] to bounds[r + 1].
        second: [N] bool, True at tokens of a second text.
        rows: indices of the examples with a second text.

    Example:
        >>> words, second = np.array([-1, 0, 1, -1, 0]), np.array([False, False, False, False, True])
        >>> number_pairs(words, np.array([0, 5]), second, [0]).tolist()
        [-1, 0, 1, -1, 2]
    """
    numbered = words.copy()
    for row in rows:
        part = slice(bounds[row], bounds[row + 1])
        is_second = second[part]
        numbered[part][is_second] += words[part][~is_second].max(initial=-1) + 1
    return numbered


def lost_offsets(overflowing: Sequence[Any], text: str) -> np.ndarray:
    """Returns the character offsets [L, 2] of the truncated tokens of the first text, without white space at the ends.

    Args:
        overflowing: the tokenizer's encodings of the truncated tokens. For a pair of texts, several encodings may hold
            the same token.
        text: the first text.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> tokenizer = VocabularyEncoder(words=95).tokenizer
        >>> encoding = tokenizer(["w1 w2 w3"], truncation=True, max_length=3).encodings[0]
        >>> lost_offsets(encoding.overflowing, "w1 w2 w3").tolist()
        [[3, 5], [6, 8]]
    """
    sizes = sum(map(len, overflowing))
    special = joined((part.special_tokens_mask for part in overflowing), sizes).astype(bool)
    in_text = ~special & (joined_or_none(part.sequence_ids for part in overflowing) == 0)
    ids = joined((part.ids for part in overflowing), sizes)
    offsets = joined((chain.from_iterable(part.offsets for part in overflowing)), 2 * sizes).reshape(-1, 2)
    tokens = np.unique(np.column_stack([offsets, ids])[in_text], axis=0)
    return strip_offsets(tokens[:, :2].astype(np.int64), text)


def evidence_columns(
    examples: Sequence[dict[str, Any]],
    bounds: np.ndarray,
    offsets: np.ndarray,
    in_first_text: np.ndarray,
    truncated: np.ndarray,
    lost: Sequence[np.ndarray],
) -> dict[str, np.ndarray]:
    """Returns the columns of a TokenTable that describe the evidence tokens.

    Args:
        examples: the examples, with the columns of TextSource.
        bounds: [R + 1] example r has the tokens from bounds[r] to bounds[r + 1].
        offsets: [N, 2] offsets of the tokens, without white space at either end.
        in_first_text: [N] bool, True at tokens of the first text that are not special.
        truncated: [R] bool, True for truncated examples.
        lost: for each example, the offsets [L, 2] of the truncated tokens of its first text.

    Example:
        >>> examples = [{"text": "so good", "rationales": [{"label": 1, "spans": [[3, 7]]}]}]
        >>> bounds, offsets, in_text = np.array([0, 1]), np.array([[0, 2]]), np.array([True])
        >>> lost = [np.array([[3, 7]])]
        >>> evidence_columns(examples, bounds, offsets, in_text, np.array([True]), lost)["cut"].tolist()
        [[1, 1]]
    """
    runs: list[np.ndarray] = []
    cut: list[dict[int, int]] = []
    evidence_kept = np.full(len(examples), np.nan)
    for row, example in enumerate(examples):
        rationales = example.get("rationales") or []
        part = slice(bounds[row], bounds[row + 1])
        masks: dict[int, np.ndarray] = {}
        for rationale in rationales:
            mask = marked_tokens(rationale["spans"], offsets[part], in_first_text[part])
            if mask.any():
                label = int(rationale["label"])
                masks[label] = masks[label] | mask if label in masks else mask
        runs.append(np.concatenate([*(runs_of_class(label, masks[label]) for label in sorted(masks)), _NO_RUNS]))
        lost_masks: dict[int, np.ndarray] = {}
        for rationale in rationales if truncated[row] else []:
            if (label := int(rationale["label"])) not in masks and rationale["spans"]:
                mask = marked_tokens(rationale["spans"], lost[row], np.ones(len(lost[row]), dtype=bool))
                lost_masks[label] = lost_masks[label] | mask if label in lost_masks else mask
        cut.append({label: max(int(mask.sum()), 1) for label, mask in lost_masks.items()})
        if rationales:
            spans = [span for rationale in rationales for span in rationale["spans"]]
            kept = evidence_kept_fraction(
                spans, offsets[part][in_first_text[part]], example["text"], truncated=bool(truncated[row])
            )
            evidence_kept[row] = np.nan if kept is None else kept
    return {
        "run_bounds": bounds_of([len(part) for part in runs]),
        "runs": np.concatenate([*runs, _NO_RUNS]),
        "cut_bounds": bounds_of([len(labels) for labels in cut]),
        "cut": cut_rows(cut),
        "evidence_kept": evidence_kept,
    }


_NO_RUNS = np.zeros((0, 3), dtype=np.int32)
