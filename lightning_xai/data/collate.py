"""Examples to tensors, padded on the right to the longest example of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightning_xai.data.encoding import Encoded
from lightning_xai.types import Attribution, Batch, TextInputs


class Item(NamedTuple):
    """One example of a split, tokenized."""

    index: int  # row in its split
    encoded: Encoded
    labels: int | list[int]  # a list of classes if multi-label


def pad_rows(rows: Sequence[np.ndarray], value: int | bool, dtype: torch.dtype) -> Tensor:
    """Returns [B, T] with each row followed by `value`."""
    width = max(len(row) for row in rows)
    padded = np.full((len(rows), width), value, dtype=rows[0].dtype)
    for padded_row, row in zip(padded, rows, strict=True):
        padded_row[: len(row)] = row
    return torch.from_numpy(padded).to(dtype)


def collate_labels(labels: Sequence[int | list[int]], num_classes: int, multilabel: bool) -> Tensor:
    """Returns labels [B] long, or [B, C] float if multi-label."""
    if not multilabel:
        return torch.tensor(labels, dtype=torch.long)
    dense = torch.zeros(len(labels), num_classes)
    for i, classes in enumerate(labels):
        dense[i, list(classes)] = 1.0
    return dense


def collate_rationales(encoded: Sequence[Encoded], token_mask: Tensor) -> Attribution:
    """Returns 0/1 scores [B, K, T] of the classes that have evidence among the tokens, in the order of the classes."""
    num_targets = max([1, *(len(e.rationales) for e in encoded)])
    scores = torch.zeros(len(encoded), num_targets, token_mask.shape[1])  # [B, K, T]
    targets = torch.zeros(len(encoded), num_targets, dtype=torch.long)
    target_mask = torch.zeros(len(encoded), num_targets, dtype=torch.bool)
    for i, e in enumerate(encoded):
        for k, (label, mask) in enumerate(sorted(e.rationales.items())):
            scores[i, k, : len(mask)] = torch.from_numpy(mask).float()
            targets[i, k] = label
            target_mask[i, k] = True
    return Attribution(scores * token_mask.unsqueeze(1), targets, target_mask, token_mask)


def collate(
    items: Sequence[Item], *, pad_token_id: int, num_classes: int, multilabel: bool, has_rationales: bool
) -> Batch:
    """Returns the batch of the given examples.

    Args:
        has_rationales: whether any example of the source has one; then every batch has a rationale, if an empty one.
    """
    encoded = [item.encoded for item in items]
    has_types = encoded[0].token_type_ids is not None
    inputs = TextInputs(
        input_ids=pad_rows([e.input_ids for e in encoded], pad_token_id, torch.long),
        attention_mask=pad_rows([np.ones(len(e), dtype=bool) for e in encoded], False, torch.bool),
        token_mask=pad_rows([e.token_mask for e in encoded], False, torch.bool),
        special_tokens_mask=pad_rows([e.special_tokens_mask for e in encoded], True, torch.bool),
        baseline_ids=pad_rows([e.baseline_ids for e in encoded], pad_token_id, torch.long),
        token_type_ids=pad_rows([e.token_type_ids for e in encoded], 0, torch.long) if has_types else None,
        word_ids=pad_rows([e.word_ids for e in encoded], -1, torch.long),
        index=torch.tensor([item.index for item in items], dtype=torch.long),
    )
    labels = collate_labels([item.labels for item in items], num_classes, multilabel)
    rationale = collate_rationales(encoded, inputs.token_mask) if has_rationales else None
    return Batch(inputs=inputs, labels=labels, rationale=rationale)
