"""Removes erased tokens from the data. ROAR, FRESH and their control runs train on the remaining tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lightning_xai.data.base import Encoder
from lightning_xai.data.corpora.encoded_split import EncodedSplit
from lightning_xai.data.removal import KEY, Removal, StoredErasures
from lightning_xai.functional.choices import require_choices
from lightning_xai.runs.encoder_facts import EncoderFacts, check_positions
from lightning_xai.runs.stores.store import RaggedStore, is_store, stores_in

AT_ONCE = 256  # number of examples whose erasures are read and checked at a time


def check_removal(removal: Removal, encoder: Encoder) -> None:
    """Checks that the encoder has the replacement tokens that `removal` needs.

    Raises:
        ValueError: `removal` is not one of the values of Removal; or `removal` is "positions", but the encoder has no
            unknown token other than the fill token. The error names the setting `erasure`, which is its
            name in the data module.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> check_removal("positions", VocabularyEncoder(words=95))
    """
    require_choices({"erasure": Removal}, {"erasure": removal})
    if removal == "positions" and encoder.unk_token_id in (None, encoder.fill_token_id):
        raise ValueError(
            f"erasure 'positions' needs an unknown token other than the fill token, but the encoder's unk_token_id is "
            f"{encoder.unk_token_id} and its fill_token_id is {encoder.fill_token_id}: set the encoder's `fill` to "
            "another token, or choose an encoder with an unknown token"
        )


def apply_erasures(
    folder: str | Path,
    split: str,
    data: EncodedSplit,
    removal: Removal,
    unk_token_id: int | None = None,
    encoder: EncoderFacts | None = None,
) -> EncodedSplit:
    """Returns the split's examples, in which the tokens that the store `<folder>/<split>` marks are erased.

    For each example, the store has a row [T] under the key (index, 0): 1 for a token to erase, 0 for any other token.

    Args:
        folder, split: the store is read from `<folder>/<split>`.
        data: the split's examples with all tokens.
        removal, unk_token_id: as in `remove_tokens`.
        encoder: facts about the encoder of `data`; None if they are not known.

    Raises:
        ValueError: the store is missing, was written for other examples or another encoder, or has no row for an
            example; or a row of the store has a wrong length, erases tokens outside `token_mask`, or deletes every
            token of its example.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> from lightning_xai.runs.stores.store import RaggedWriter
        >>> from lightning_xai.data.corpora.cache import write_corpus
        >>> examples = [{"text": "w0 w1", "labels": 0}]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = EncodedSplit(write_corpus(Path(folder, "corpus"), examples, VocabularyEncoder(words=95)))
        ...     with RaggedWriter(f"{folder}/test") as writer:
        ...         writer.add(0, 0, np.array([0, 1, 0, 0]))
        ...     apply_erasures(folder, "test", data, "mask").encoded[0].input_ids.tolist()
        [1, 3, 6, 2]
    """
    store = _open_store(Path(folder), split)
    if encoder is not None:
        check_positions(store.metadata.get("encoder"), encoder, str(store.path))
    written_for = store.metadata.get("examples")
    if written_for is not None and written_for != data.hash():
        raise ValueError(
            f"{store.path} was written for other examples, or for the same examples in another order: use the "
            "source, encoder, seed, max_examples and stratify of the run that wrote the store"
        )
    erasures = StoredErasures(store.path, removal, unk_token_id)
    lengths = np.concatenate(
        [_kept_lengths(erasures, data, range(begin, min(begin + AT_ONCE, len(data))))
         for begin in range(0, len(data), AT_ONCE)]
    )  # fmt: skip
    return EncodedSplit(data.corpus, data.index, erasures, lengths)


def _open_store(folder: Path, split: str) -> RaggedStore:
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder} of erasures: run the stage that writes it, or correct the path")
    if not is_store(folder / split):
        stored = ", ".join(map(str, stores_in(folder)))
        raise ValueError(
            f"the folder {folder} has no erasures for split {split!r} (splits with erasures: {stored or 'none'}): "
            "write them first, or use only splits with erasures"
        )
    return RaggedStore(folder / split)


def _kept_lengths(erasures: StoredErasures, data: EncodedSplit, positions: range) -> np.ndarray:
    """Returns, for each example at the given `positions` in `data`, the number of tokens that remain after erasure.

    Raises:
        ValueError: a row of the store is missing or invalid, as `apply_erasures` describes.
    """
    path, items = erasures.path, data[list(positions)]
    bounds, may_be_erased = items.table.bounds.tolist(), items.table.explained
    lengths = np.diff(bounds).astype(np.int32)
    for i, index in enumerate(items.indices.tolist()):
        if (index, KEY) not in erasures.store:
            raise ValueError(
                f"{path} has no row for the example with index {index}: wait until the run that writes the store has "
                "finished, or remove the store and start that run again"
            )
        keep = erasures.keep(index)
        if len(keep) != lengths[i]:
            raise ValueError(
                f"{path} has a row of {len(keep)} numbers for the example with index {index}, which has {lengths[i]} "
                "tokens: use the source and encoder of the run that wrote the store"
            )
        if not (keep | may_be_erased[bounds[i] : bounds[i + 1]]).all():
            raise ValueError(
                f"{path} erases tokens that must not be erased in the example with index {index}: set the encoder's "
                "explain_pair as in the run that wrote the store"
            )
        if erasures.removal == "delete":
            lengths[i] = keep.sum()
            if not lengths[i]:
                raise ValueError(
                    f"{path} deletes every token of the example with index {index}: keep at least one token, or set "
                    "erasure to 'mask'"
                )
    return lengths
