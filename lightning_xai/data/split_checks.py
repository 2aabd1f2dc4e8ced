"""Checks splits for unknown tokens, classes without a training row, and texts that occur in two splits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict

from lightning_xai.data.base import Encoded, Encoder
from lightning_xai.data.encoded_split import EncodedSplit
from lightning_xai.data.sources.base import TextSource
from lightning_xai.functional.class_names import listed
from lightning_xai.runs.counted import Counted
from lightning_xai.runs.progress import say
from lightning_xai.runs.ranks import rank

CHUNK = 1000  # number of examples that are encoded at once
MOST_UNKNOWN = 0.5  # a larger fraction of unknown tokens in a split is an error


def unknown_fraction(encoded: Sequence[Encoded], unk_token_id: int | None) -> float:
    """Returns the fraction of unknown tokens among the tokens that are not special; 0 if all tokens are special.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> encoder = VocabularyEncoder(words=["good", "film"])
        >>> unknown_fraction(encoder.encode_batch([{"text": "good film"}, {"text": "bad film"}]), encoder.unk_token_id)
        0.25
    """
    unknown = sum(int((~e.special_tokens_mask & (e.input_ids == unk_token_id)).sum()) for e in encoded)
    total = sum(int((~e.special_tokens_mask).sum()) for e in encoded)
    return unknown / total if total and unk_token_id is not None else 0.0


def report_unknown_tokens(splits: Mapping[str, EncodedSplit], encoder: Encoder) -> None:
    """Prints the fractions of unknown tokens of all splits in one line, once per split and process.

    Args:
        splits: the splits in use, before any token is erased.

    Raises:
        ValueError: more than half of the tokens of a split are unknown.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> examples, encoder = [{"text": "w1 w2"}, {"text": "w1 good"}], VocabularyEncoder(words=95)
        >>> split = EncodedSplit(examples, encoder.encode_batch(examples), np.arange(2))
        >>> report_unknown_tokens({"test": split}, encoder)
        unknown tokens: test 25.0%
    """
    shares = []
    for name, split in splits.items():
        if encoder.unk_token_id is None or split.unknown_tokens_are_reported:
            continue
        fraction = unknown_fraction(split.encoded, encoder.unk_token_id)
        if fraction > MOST_UNKNOWN:
            raise ValueError(
                f"{fraction:.0%} of the tokens in split {name!r} are unknown to {type(encoder).__name__}: take the "
                "words from the training split (words: null), or choose an encoder for the language and spelling of "
                "the texts"
            )
        shares.append(f"{name} {fraction:.1%}")
        split.unknown_tokens_are_reported = True
    if shares:
        say(f"unknown tokens: {', '.join(shares)}")


def encode_split(
    examples: Sequence[dict[str, Any]], index: np.ndarray, name: str, source: TextSource, encoder: Encoder
) -> EncodedSplit:
    """Returns the tokenized examples of a split. Warns of classes that have no training row.

    Args:
        examples: the examples, with the columns of TextSource.
        index: [number of examples] for each example, the number of its row in the full split; ascending.
        name: name of the split.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> examples = [{"text": "w1 w2", "labels": 0}, {"text": "w1 w3", "labels": 1}]
        >>> encode_split(examples, np.arange(2), "test", Planted(), VocabularyEncoder(words=95)).lengths.tolist()
        [4, 4]
    """
    if name == "train" and rank() == 0:
        _warn_of_unseen_classes(examples, source)
    encoded: list[Encoded] = []
    chunks = [examples[begin : begin + CHUNK] for begin in range(0, len(examples), CHUNK)]
    for chunk in Counted(f"encoding {name}", len(examples)).over(chunks, len):
        encoded += encoder.encode_batch(chunk)
    return EncodedSplit(examples, encoded, index)


def _warn_of_unseen_classes(examples: Sequence[dict[str, Any]], source: TextSource) -> None:
    labels = (example["labels"] for example in examples)
    seen = {label for row in labels for label in (row if isinstance(row, list) else [row])}
    unseen = [name for number, name in enumerate(source.class_names) if number not in seen]
    if unseen:
        warnings.warn(f"no training row has a class of {listed(unseen)}: the network cannot learn it", stacklevel=3)


def load_rows(source: TextSource) -> DatasetDict:
    """Returns the splits of a source. Warns if two splits share texts.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> list(load_rows(Planted(num_train=8)))
        ['train', 'validation', 'test']
    """
    rows = source.load()
    if rank() == 0:
        for one, other, fraction in shared_text_fractions(rows):
            warnings.warn(
                f"{fraction:.1%} of the texts in split {other!r} are also in split {one!r}: results there may be too "
                "good, so check data_files or remove the duplicates",
                stacklevel=2,
            )
    return rows


def shared_text_fractions(rows: Mapping[str, Dataset]) -> Iterator[tuple[str, str, float]]:
    """Yields (first split, second split, fraction of the second split's rows whose text occurs in the first split).

    Pairs of splits without common texts are left out. If rows have two texts, rows are compared by both texts.

    Example:
        >>> from lightning_xai.data.sources.base import rows_to_dataset
        >>> train = rows_to_dataset([{"text": "a"}, {"text": "b"}])
        >>> list(shared_text_fractions({"train": train, "test": rows_to_dataset([{"text": "b"}, {"text": "c"}])}))
        [('train', 'test', 0.5)]
    """
    hashes = {split: _text_hashes(part) for split, part in rows.items()}
    for one, other in combinations(hashes, 2):
        shared = float(np.isin(hashes[other], hashes[one]).mean()) if len(hashes[other]) else 0.0
        if shared:
            yield one, other, shared


def _text_hashes(rows: Dataset) -> np.ndarray:
    columns = [rows[name] for name in ("text", "text_pair") if name in rows.column_names]
    return np.array([hash(texts) for texts in zip(*columns, strict=True)], dtype=np.int64)
