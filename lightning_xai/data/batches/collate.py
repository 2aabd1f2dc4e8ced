"""Turns tokenized examples into batches of tensors. Rows are padded on the right to the length of the longest row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from lightning_xai.data.batches.items import Item, Items, Labels
from lightning_xai.data.corpora.token_table import EXPLAINED, PROMPT, SPECIAL, TYPE_BITS, TokenTable
from lightning_xai.types import Attribution, Batch, TextInputs


def pad(values: np.ndarray, places: np.ndarray, value: int, dtype: type = np.int64) -> np.ndarray:
    """Returns an array [B, T] with the `values`, row by row, where `places` is True, and with `value` elsewhere.

    Args:
        values: [N] values of all rows, one row after another.
        places: [B, T] bool, False at padding; exactly N entries are True.
        value: the value of padding.
        dtype: type of the result.

    Example:
        >>> pad(np.array([1, 5, 6, 1]), np.array([[True, True, True], [True, False, False]]), 0).tolist()
        [[1, 5, 6], [1, 0, 0]]
    """
    padded: np.ndarray = np.full(places.shape, value, dtype=dtype)
    padded[places] = values
    return padded


def collate_labels(labels: Sequence[Labels], num_classes: int, multilabel: bool) -> Tensor:
    """Returns the labels of a batch: the class of each example, as [B] long.

    If `multilabel`, returns [B, C] float instead: 1 for each class of the example, and 0 for every other class.

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


def collate_rationales(table: TokenTable, token_mask: Tensor) -> Attribution:
    """Returns a rationale with scores [B, K, T], 1 at evidence tokens and 0 elsewhere.

    K is the largest number of classes that have evidence in the same example, but at least 1. In each example, the
    first entries along K belong to the classes with evidence, in ascending order. The remaining entries are padding.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> example = {"text": "w1 w2", "rationales": [{"label": 1, "spans": [[3, 5]]}]}
        >>> table = VocabularyEncoder(words=95).encode_table([example])
        >>> rationale = collate_rationales(table, torch.tensor([[False, True, True, False]]))
        >>> rationale.targets.tolist(), rationale.scores.tolist()
        ([[1]], [[[0.0, 0.0, 1.0, 0.0]]])
    """
    bounds, runs = table.run_bounds.tolist(), table.runs.tolist()
    runs_of = [runs[begin:end] for begin, end in pairwise(bounds)]
    classes = [list(dict.fromkeys(run[0] for run in row)) for row in runs_of]
    num_targets = max([1, *map(len, classes)])
    scores = np.zeros((len(table), num_targets, token_mask.shape[1]), dtype=np.float32)  # [B, K, T]
    targets = torch.zeros(len(table), num_targets, dtype=torch.long)
    target_mask = torch.zeros(len(table), num_targets, dtype=torch.bool)
    for row, row_classes in enumerate(classes):
        if row_classes:
            targets[row, : len(row_classes)] = torch.tensor(row_classes)
            target_mask[row, : len(row_classes)] = True
        for label, begin, end in runs_of[row]:
            scores[row, row_classes.index(label), begin:end] = 1.0
    return Attribution(torch.from_numpy(scores) * token_mask.unsqueeze(1), targets, target_mask, token_mask)


def collate_evidence_cut(table: TokenTable, num_classes: int) -> Tensor:
    """Returns [B, C] int: the number of a class's evidence tokens if truncation removed all of them, otherwise 0.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> example = {"text": "w1 w2 w3", "rationales": [{"label": 1, "spans": [[6, 8]]}]}
        >>> table = VocabularyEncoder(words=95, max_length=4).encode_table([example])  # w3 is cut
        >>> collate_evidence_cut(table, num_classes=2).tolist()
        [[0, 1]]
    """
    cut = np.zeros((len(table), num_classes), dtype=np.int32)
    cut[np.repeat(np.arange(len(table)), np.diff(table.cut_bounds)), table.cut[:, 0]] = table.cut[:, 1]
    return torch.from_numpy(cut)


def collate(
    items: Sequence[Item], *, pad_token_id: int, num_classes: int, multilabel: bool, has_rationales: bool
) -> Batch:
    """Returns the given examples as a batch.

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
    examples = Items.of(items)
    table = examples.table
    lengths = table.lengths
    places = np.arange(int(lengths.max())) < lengths[:, None]  # [B, T]
    flags = pad(table.flags, places, SPECIAL, np.uint8)
    input_ids = pad(table.input_ids, places, pad_token_id)
    token_mask = (flags & EXPLAINED) != 0
    inputs = TextInputs(
        input_ids=torch.from_numpy(input_ids),
        attention_mask=torch.from_numpy(places),
        token_mask=torch.from_numpy(token_mask),
        special_tokens_mask=torch.from_numpy((flags & SPECIAL) != 0),
        baseline_ids=torch.from_numpy(np.where(token_mask, table.fill_token_id, input_ids)),
        token_type_ids=torch.from_numpy((flags >> TYPE_BITS).astype(np.int64)) if table.has_types else None,
        word_ids=torch.from_numpy(pad(table.word_ids, places, -1)),
        index=torch.from_numpy(np.array(examples.indices, dtype=np.int64)),
        prompt_mask=torch.from_numpy((flags & PROMPT) != 0) if (table.flags & PROMPT).any() else None,
    )
    return Batch(
        inputs=inputs,
        labels=collate_labels(examples.labels, num_classes, multilabel),
        rationale=collate_rationales(table, inputs.token_mask) if has_rationales else None,
        evidence_cut=collate_evidence_cut(table, num_classes) if has_rationales else None,
    )
