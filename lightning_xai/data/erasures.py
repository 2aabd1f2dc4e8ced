"""Removal of tokens from the data before training. ROAR, FRESH and their controls train on the tokens that are left."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Literal

import numpy as np

from lightning_xai.data.encoded_split import EncodedSplit
from lightning_xai.data.encoding import Encoded, Encoder
from lightning_xai.functional.choices import require_choices
from lightning_xai.runs.encoder_facts import Facts, check_positions
from lightning_xai.runs.store import RaggedStore, is_store, stores_in

Removal = Literal["mask", "delete", "positions"]
KEY = 0  # keys in a store are (example, class); an erasure has no class, so its key has class 0


def remove_tokens(encoded: Encoded, keep: np.ndarray, removal: Removal, *, unk_token_id: int | None = None) -> Encoded:
    """Returns the example without the tokens outside `keep`.

    Args:
        encoded: the example.
        keep: [T] bool, True where a token stays.
        removal: "mask" replaces removed tokens by the fill token. "delete" drops removed tokens from every array.
            "positions" replaces removed tokens by the fill token, and kept tokens of `token_mask` by the unknown token,
            so that a model sees only the positions of kept tokens.
        unk_token_id: id of the unknown token; only "positions" needs it.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> encoded = VocabularyEncoder(words=95).encode({"text": "w0 w1 w2"})
        >>> keep = np.array([True, True, False, True, True])
        >>> remove_tokens(encoded, keep, "mask").input_ids.tolist()
        [1, 5, 3, 7, 2]
        >>> remove_tokens(encoded, keep, "delete").input_ids.tolist()
        [1, 5, 7, 2]
    """
    if removal == "delete":
        names = [f.name for f in fields(encoded) if isinstance(getattr(encoded, f.name), np.ndarray)]
        kept = {name: getattr(encoded, name)[keep] for name in names}
        rationales = {label: mask[keep] for label, mask in encoded.rationales.items()}
        return replace(encoded, **kept, rationales=rationales)
    input_ids = np.where(keep, encoded.input_ids, encoded.baseline_ids)
    if removal == "positions":
        assert unk_token_id is not None, "check_removal refuses encoders without an unknown token"
        input_ids = np.where(encoded.token_mask & keep, unk_token_id, input_ids)
    return replace(encoded, input_ids=input_ids.astype(np.int32))


def check_removal(removal: Removal, encoder: Encoder) -> None:
    """Checks that the encoder has the replacement tokens that `removal` needs.

    Raises:
        ValueError: `removal` is not a Removal, or "positions" is chosen and the encoder has no unknown token other than
            the fill token. In the message, `removal` has the name `erasure`, as in the data module.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> check_removal("positions", VocabularyEncoder(words=95))
    """
    require_choices({"erasure": Removal}, {"erasure": removal})
    if removal == "positions" and encoder.unk_token_id in (None, encoder.fill_token_id):
        raise ValueError(
            f"erasure 'positions' needs an unknown token other than the fill token, but the encoder's unk_token_id is "
            f"{encoder.unk_token_id} and its fill token {encoder.fill_token_id}: set another fill"
        )


def apply_erasures(
    folder: str | Path,
    split: str,
    data: EncodedSplit,
    removal: Removal,
    unk_token_id: int | None = None,
    encoder: Facts | None = None,
) -> EncodedSplit:
    """Returns a split's examples without the tokens that the store `<folder>/<split>` erases.

    For each example, the store has a row [T] under the key (index, 0): 1 for an erased token, 0 for a token that stays.

    Args:
        folder, split: the erasures are read from the store `<folder>/<split>`.
        data: the split's examples with all tokens.
        removal, unk_token_id: as in `remove_tokens`.
        encoder: facts about the encoder of `data`; None if the facts are not known.

    Raises:
        ValueError: there is no store, the store was written for other examples or with another encoder, or an example
            has no row in the store.
            The error is also raised if a row has another length than the text, erases tokens outside `token_mask`, or
            deletes every token.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> from lightning_xai.runs.store import RaggedWriter
        >>> examples = [{"text": "w0 w1", "labels": 0}]
        >>> data = EncodedSplit(examples, VocabularyEncoder(words=95).encode_batch(examples), np.array([0]))
        >>> with tempfile.TemporaryDirectory() as folder:
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
            f"{store.path} was written for other examples, or for the same ones in another order: use the source, "
            "encoder, seed and max_examples of the run that wrote the store"
        )
    changed = []
    for index, encoded in zip(map(int, data.index), data.encoded, strict=True):
        keep = _read_keep(store, index, encoded)
        if removal == "delete" and not keep.any():
            raise ValueError(f"{store.path} leaves nothing of example {index}: keep a token, or set erasure to 'mask'")
        changed.append(remove_tokens(encoded, keep, removal, unk_token_id=unk_token_id))
    return EncodedSplit(data.examples, changed, data.index)


def _open_store(folder: Path, split: str) -> RaggedStore:
    if not folder.is_dir():
        raise ValueError(f"erasures {folder} is not there: run the stage that writes it first, or correct the path")
    if not is_store(folder / split):
        stored = ", ".join(map(str, stores_in(folder)))
        raise ValueError(f"erasures {folder} has no split {split!r}, only {stored or 'none'}: leave that split out")
    return RaggedStore(folder / split)


def _read_keep(store: RaggedStore, index: int, encoded: Encoded) -> np.ndarray:
    """Returns keep [T] bool for one example, False where the store erases a token. Raises as `apply_erasures`."""
    if (index, KEY) not in store:
        raise ValueError(
            f"{store.path} has no row for example {index}: wait until the run that writes the store has finished, or "
            "remove the store and start that run again"
        )
    keep = store.get(index, KEY) <= 0.5
    if len(keep) != len(encoded):
        raise ValueError(
            f"{store.path} was written for {len(keep)} tokens of example {index}, which has {len(encoded)}: use the "
            "source and encoder of the run that wrote the store"
        )
    if not (keep | encoded.token_mask).all():
        raise ValueError(
            f"{store.path} erases tokens of example {index} that may not be erased: set the encoder's explain_pair as "
            "in the run that wrote the store"
        )
    return keep
