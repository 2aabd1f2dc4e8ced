"""Collation: padding, labels and rationales as tensors."""

import torch

from lightning_xai.data.batches.collate import Item, collate
from lightning_xai.data.vocabulary import VocabularyEncoder

ENCODER = VocabularyEncoder(words=95)


def batch(examples, *, multilabel=False, has_rationales=True):
    items = [Item(10 + i, ENCODER.encode(e), e["labels"]) for i, e in enumerate(examples)]
    return collate(items, pad_token_id=0, num_classes=3, multilabel=multilabel, has_rationales=has_rationales)


SHORT = {"text": "w1", "labels": 2, "rationales": []}
LONG = {"text": "w1 w2 w3", "labels": 1, "rationales": [{"label": 1, "spans": [[3, 8]]}]}


def test_rows_are_padded_on_the_right_to_the_longest():
    inputs = batch([SHORT, LONG]).inputs
    assert inputs.input_ids.tolist() == [[1, 6, 2, 0, 0], [1, 6, 7, 8, 2]]
    assert inputs.attention_mask.sum(dim=1).tolist() == [3, 5]
    assert inputs.word_ids[0].tolist() == [-1, 0, -1, -1, -1]


def test_padding_is_special_and_never_explained():
    inputs = batch([SHORT, LONG]).inputs
    assert inputs.special_tokens_mask[0].tolist() == [True, False, True, True, True]
    assert inputs.token_mask[0].tolist() == [False, True, False, False, False]


def test_index_names_the_rows():
    assert batch([SHORT, LONG]).index.tolist() == [10, 11]


def test_single_labels_are_long():
    labels = batch([SHORT, LONG]).labels
    assert (labels.dtype, labels.tolist()) == (torch.long, [2, 1])


def test_multi_labels_are_indicator_floats():
    labels = batch([SHORT | {"labels": []}, LONG | {"labels": [0, 2]}], multilabel=True).labels
    assert labels.tolist() == [[0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]


def test_rationale_has_a_row_for_each_class_with_evidence():
    two = LONG | {"rationales": [{"label": 2, "spans": [[0, 2]]}, {"label": 0, "spans": [[6, 8]]}]}
    rationale = batch([SHORT, two]).rationale
    assert rationale.targets.tolist() == [[0, 0], [0, 2]]
    assert rationale.target_mask.tolist() == [[False, False], [True, True]]
    assert rationale.scores[1].tolist() == [[0, 0, 0, 1, 0], [0, 1, 0, 0, 0]]


def test_batch_without_evidence_has_an_empty_rationale_if_the_source_has_some():
    rationale = batch([SHORT]).rationale
    assert rationale.scores.shape == (1, 1, 3)
    assert not rationale.target_mask.any()


def test_source_without_evidence_gives_no_rationale():
    assert batch([SHORT], has_rationales=False).rationale is None
