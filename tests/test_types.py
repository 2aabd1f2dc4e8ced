"""Value types: their rows, copies and the making of inputs from ids."""

from dataclasses import replace

import pytest
import torch

from lightning_xai.types import Attribution, Batch, TextInputs


def batch() -> Batch:
    inputs = TextInputs.of_ids([[1, 5, 6, 2], [1, 7, 2]], pad_id=0, fill_id=3, special_ids=[1, 2])
    scores = torch.arange(8.0).reshape(2, 1, 4)
    targets = torch.tensor([[0], [1]])
    rationale = Attribution(scores, targets, torch.ones_like(targets, dtype=torch.bool), inputs.token_mask)
    return Batch(inputs, torch.tensor([0, 1]), rationale)


def test_rows_are_taken_from_nested_fields_too():
    row = batch()[[1]]
    assert row.rationale is not None
    assert row.index.tolist() == [1] and row.labels.tolist() == [1]
    assert row.rationale.scores.tolist() == [[[4.0, 5.0, 6.0, 7.0]]]


def test_boolean_rows_are_those_that_are_true():
    assert batch()[torch.tensor([False, True])].index.tolist() == [1]


def test_repeated_rows_stand_side_by_side():
    assert batch().repeat_interleave(torch.tensor([1, 2])).index.tolist() == [0, 1, 1]


def test_fields_that_are_none_stay_none():
    assert replace(batch(), rationale=None)[:1].rationale is None


def test_to_casts_every_tensor():
    assert batch().to(torch.float64).inputs.input_ids.dtype == torch.float64


def test_padding_of_ids_is_special_and_never_explained():
    inputs = batch().inputs
    assert inputs.special_tokens_mask.tolist() == [[True, False, False, True], [True, False, True, True]]
    assert inputs.attention_mask.sum(dim=1).tolist() == [4, 3]
    assert not (inputs.token_mask & inputs.special_tokens_mask).any()


def test_baseline_replaces_explained_tokens_by_the_fill_token():
    assert batch().inputs.baseline_ids.tolist() == [[1, 3, 3, 2], [1, 3, 2, 0]]


def test_trim_cuts_columns_of_padding_and_keeps_the_index():
    trimmed = batch().inputs[1:].trim()
    assert trimmed.input_ids.tolist() == [[1, 7, 2]]
    assert trimmed.index is not None and trimmed.index.tolist() == [1]


def test_padding_on_the_left_is_not_trimmed():
    inputs = batch().inputs[1:].map(lambda tensor: tensor.flip(1) if tensor.dim() > 1 else tensor)
    assert inputs.trim().input_ids.shape == (1, 4)


def test_batch_without_an_index_says_so():
    with pytest.raises(AssertionError, match="need an index"):
        _ = Batch(replace(batch().inputs, index=None), torch.tensor([0, 1])).index
