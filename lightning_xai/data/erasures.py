"""Tokens erased from the data itself, read from a folder of stores: what ROAR, FRESH and their controls train on."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Literal

import numpy as np

from lightning_xai.data.encoded_split import EncodedSplit
from lightning_xai.data.encoding import Encoded, Encoder
from lightning_xai.functional.choices import require_choices
from lightning_xai.runs.store import RaggedStore

Erasure = Literal["mask", "delete", "positions"]
KEY = 0  # erasures belong to an example, not to one of its classes


def erase(encoded: Encoded, erased: np.ndarray, erasure: Erasure, *, unk_token_id: int | None = None) -> Encoded:
    """Returns the example without the tokens of `erased` [T] bool.

    Args:
        erasure: "mask" writes the fill token over them; "delete" drops them; "positions" writes the fill token over
            them and the unknown token over all others that may be explained, which leaves only where they stood.
        unk_token_id: for "positions".
    """
    if erasure == "delete":
        kept = {f.name: getattr(encoded, f.name)[~erased] for f in fields(encoded) if _per_token(encoded, f.name)}
        rationales = {label: mask[~erased] for label, mask in encoded.rationales.items()}
        return replace(encoded, **kept, rationales=rationales)
    input_ids = np.where(erased, encoded.baseline_ids, encoded.input_ids)
    if erasure == "positions":
        input_ids = np.where(encoded.token_mask & ~erased, unk_token_id, input_ids)
    return replace(encoded, input_ids=input_ids.astype(np.int32))


def check_erasure(erasure: Erasure, encoder: Encoder) -> None:
    """Raises ValueError if there is no such erasure, or an encoder lacks a token that it needs."""
    require_choices({"erasure": Erasure}, {"erasure": erasure})
    if erasure == "positions" and encoder.unk_token_id in (None, encoder.fill_token_id):
        raise ValueError(
            f"erasure 'positions' needs an unknown token other than the fill token, but the encoder's unk_token_id is "
            f"{encoder.unk_token_id} and its fill token {encoder.fill_token_id}: set another fill"
        )


def apply_erasures(
    folder: str | Path, split: str, data: EncodedSplit, erasure: Erasure, unk_token_id: int | None = None
) -> EncodedSplit:
    """Returns a split's examples after the erasures that `<folder>/<split>` holds for them.

    The store has one row [T] an example under (index, 0): 1 where a token is erased, 0 where it stays.

    Args:
        data: the split without erasures.
        erasure, unk_token_id: see `erase`.

    Raises:
        ValueError: there is no store, it was written for other examples, or an example has no row, one of another
            length, one that erases tokens outside token_mask, or would be left without any token.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"erasures {folder} is not there: run the stage that writes it first, or correct the path")
    if not (Path(folder) / split / "store.json").is_file():
        known = ", ".join(sorted(path.parent.name for path in Path(folder).glob("*/store.json")))
        raise ValueError(f"erasures {folder} has no split {split!r}, only {known or 'none'}: leave that split out")
    store = RaggedStore(Path(folder) / split)
    written_for = store.metadata.get("examples")
    if written_for is not None and written_for != data.hash():
        raise ValueError(
            f"{store.path} was written for other examples, or for the same ones in another order: use the source, "
            "encoder, seed and max_examples that it was written with"
        )
    changed = []
    for i, example in zip(map(int, data.index), data.encoded, strict=True):
        if (i, KEY) not in store:
            raise ValueError(
                f"{store.path} has no row for example {i}: let the run that writes it end, or remove the folder and "
                "run that again"
            )
        erased = store.get(i, KEY) > 0.5
        if len(erased) != len(example):
            raise ValueError(
                f"{store.path} was written for {len(erased)} tokens of example {i}, which has {len(example)}: use the "
                "source and encoder that it was written with"
            )
        if (erased & ~example.token_mask).any():
            raise ValueError(
                f"{store.path} erases tokens of example {i} that may not be erased: use the encoder's explain_pair "
                "that it was written with"
            )
        if erasure == "delete" and erased.all():
            raise ValueError(f"{store.path} leaves nothing of example {i}: keep one token, or erase by mask")
        changed.append(erase(example, erased, erasure, unk_token_id=unk_token_id))
    return EncodedSplit(data.examples, changed, data.index)


def _per_token(encoded: Encoded, name: str) -> bool:
    return isinstance(getattr(encoded, name), np.ndarray)
