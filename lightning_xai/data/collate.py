"""Turns tokenized examples into batches of tensors, padded on the right to the longest example of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lightning_xai.data.encoding import Encoded
from lightning_xai.types import Attribution, Batch, TextInputs


@dataclass(frozen=True)
class Item:
    """One tokenized example with its labels.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> Item(7, VocabularyEncoder(words=95).encode({"text": "w1"}), labels=1).encoded.input_ids.tolist()
        [1, 6, 2]
    """

    index: int  # the example's row in its split
    encoded: Encoded
    labels: int | list[int]  # the class, or the list of classes if multi-label


def pad_rows(rows: Sequence[np.ndarray], value: int | bool, dtype: torch.dtype) -> Tensor:
    """Returns the rows as a tensor [B, T]; each row is filled with `value` up to the length of the longest.

    Example:
        >>> pad_rows([np.array([1, 5, 6]), np.array([1])], 0, torch.long).tolist()
        [[1, 5, 6], [1, 0, 0]]
    """
    width = max(len(row) for row in rows)
    padded = np.full((len(rows), width), value, dtype=rows[0].dtype)
    for padded_row, row in zip(padded, rows, strict=True):
        padded_row[: len(row)] = row
    return torch.from_numpy(padded).to(dtype)


def collate_labels(labels: Sequence[int | list[int]], num_classes: int, multilabel: bool) -> Tensor:
    """Returns labels [B] long; if multi-label, labels [B, C] float, 0 or 1.

    Example:
        >>> collate_labels([2, 0], num_classes=3, multilabel=False).tolist()
        [2, 0]
        >>> collate_labels([[0, 2], []], num_classes=3, multilabel=True).tolist()
        [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    if not multilabel:
        return torch.tensor(labels, dtype=torch.long)
    dense = torch.zeros(len(labels), num_classes)
    for i, classes in enumerate(labels):
        assert not isinstance(classes, int), "check_example refuses integer labels in a multi-label source"
        dense[i, classes] = 1.0
    return dense


def collate_rationales(encoded: Sequence[Encoded], token_mask: Tensor) -> Attribution:
    """Returns a rationale with scores [B, K, T], 1 at evidence tokens and 0 elsewhere.

    The K rows of an example are its classes with evidence, in ascending order, then padding. K is at least 1.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> example = {"text": "w1 w2", "rationales": [{"label": 1, "spans": [[3, 5]]}]}
        >>> encoded = VocabularyEncoder(words=95).encode(example)
        >>> rationale = collate_rationales([encoded], torch.tensor([[False, True, True, False]]))
        >>> rationale.targets.tolist(), rationale.scores.tolist()
        ([[1]], [[[0.0, 0.0, 1.0, 0.0]]])
    """
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


def collate_evidence_cut(encoded: Sequence[Encoded], num_classes: int) -> Tensor:
    """Returns [B, C] bool: True if the example has evidence for the class, but truncation removed all of this evidence.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> example = {"text": "w1 w2 w3", "rationales": [{"label": 1, "spans": [[6, 8]]}]}
        >>> encoded = VocabularyEncoder(words=95, max_length=4).encode(example)  # w3 is cut
        >>> collate_evidence_cut([encoded], num_classes=2).tolist()
        [[False, True]]
    """
    cut = torch.zeros(len(encoded), num_classes, dtype=torch.bool)
    for i, e in enumerate(encoded):
        cut[i, list(e.evidence_cut)] = True
    return cut


def collate(
    items: Sequence[Item], *, pad_token_id: int, num_classes: int, multilabel: bool, has_rationales: bool
) -> Batch:
    """Returns the batch of the given examples.

    Args:
        has_rationales: whether the source has rationales. If so, every batch has rationales, even if none of its
            examples has evidence.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> encoded = VocabularyEncoder(words=95).encode_batch([{"text": "w1 w2"}, {"text": "w1"}])
        >>> items = [Item(i, tokens, labels=i) for i, tokens in enumerate(encoded)]
        >>> batch = collate(items, pad_token_id=0, num_classes=2, multilabel=False, has_rationales=False)
        >>> batch.inputs.input_ids.tolist(), batch.labels.tolist()
        ([[1, 6, 7, 2], [1, 6, 2, 0]], [0, 1])
    """
    encoded = [item.encoded for item in items]
    types = [e.token_type_ids for e in encoded if e.token_type_ids is not None]  # all examples have them, or none
    inputs = TextInputs(
        input_ids=pad_rows([e.input_ids for e in encoded], pad_token_id, torch.long),
        attention_mask=pad_rows([np.ones(len(e), dtype=bool) for e in encoded], False, torch.bool),
        token_mask=pad_rows([e.token_mask for e in encoded], False, torch.bool),
        special_tokens_mask=pad_rows([e.special_tokens_mask for e in encoded], True, torch.bool),
        baseline_ids=pad_rows([e.baseline_ids for e in encoded], pad_token_id, torch.long),
        token_type_ids=pad_rows(types, 0, torch.long) if types else None,
        word_ids=pad_rows([e.word_ids for e in encoded], -1, torch.long),
        index=torch.tensor([item.index for item in items], dtype=torch.long),
    )
    labels = collate_labels([item.labels for item in items], num_classes, multilabel)
    rationale = collate_rationales(encoded, inputs.token_mask) if has_rationales else None
    evidence_cut = collate_evidence_cut(encoded, num_classes) if has_rationales else None
    return Batch(inputs=inputs, labels=labels, rationale=rationale, evidence_cut=evidence_cut)
