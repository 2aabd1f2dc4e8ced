from dataclasses import replace

import pytest
import torch

from lightning_xai.functional.erasure.units import count_units, kept_tokens, spread_over_tokens, token_units, unit_ids
from lightning_xai.functional.scores.ranking import token_ranks
from tests.conftest import text_inputs


def inputs_of(word_ids, token_mask):
    return replace(
        text_inputs([len(word_ids)]),
        word_ids=torch.tensor([word_ids]),
        token_mask=torch.tensor([token_mask]).bool(),
    )


def test_every_explainable_token_is_a_unit():
    inputs = inputs_of([-1, 0, 0, 1, -1, -1], [0, 1, 0, 1, 1, 0])
    assert token_units(inputs, "token").tolist() == [[-1, 0, -1, 1, 2, -1]]


def test_the_explainable_tokens_of_a_word_are_one_unit_and_those_outside_words_their_own():
    inputs = inputs_of([-1, 3, 3, 0, -1, -1, 0, 7, -1], [0, 1, 1, 0, 1, 1, 1, 1, 0])
    assert token_units(inputs, "word").tolist() == [[-1, 0, 0, -1, 1, 2, 3, 4, -1]]


def test_units_do_not_depend_on_the_batch():
    inputs = text_inputs([6, 13, 9])
    for unit in ("token", "word"):
        alone = torch.cat([token_units(inputs[row : row + 1], unit) for row in range(3)])
        assert torch.equal(token_units(inputs, unit), alone)


def test_units_are_the_units_that_metrics_rank():
    inputs = inputs_of([-1, 3, 3, 3, -1, 3, 0, 0, -1], [0, 1, 0, 1, 1, 1, 1, 1, 0])
    units = token_units(inputs, "word")
    ranks, count = token_ranks(-units.unsqueeze(1).double(), inputs.token_mask, inputs.word_ids)
    assert count_units(units).tolist() == count.tolist() == [5]
    same = units.unsqueeze(1) == units.unsqueeze(2)
    assert torch.equal(same & inputs.token_mask.unsqueeze(1), (ranks.mT == ranks) & inputs.token_mask.unsqueeze(1))


def test_texts_without_a_unit_or_a_column_have_none():
    assert count_units(torch.tensor([[-1, -1], [0, 1]])).tolist() == [0, 2]
    assert count_units(torch.zeros(2, 0, dtype=torch.long)).tolist() == [0, 0]


def test_words_without_ids_are_refused():
    with pytest.raises(ValueError, match="word_ids is None"):
        token_units(replace(text_inputs([5]), word_ids=None), "word")


def test_tokens_are_kept_with_their_unit_or_without_one():
    units = torch.tensor([-1, 0, 0, 1, -1])
    kept = kept_tokens(units, torch.tensor([[True, False], [False, True]]))
    assert kept.tolist() == [[True, True, True, False, True], [True, False, False, True, True]]


def test_a_units_score_is_divided_among_its_tokens():
    scores = spread_over_tokens(torch.tensor([[[3.0, 5.0]]]), torch.tensor([[-1, 0, 0, 1, -1]]))
    assert scores.tolist() == [[[0.0, 1.5, 1.5, 5.0, 0.0]]]


def test_no_units_score_nothing():
    assert not spread_over_tokens(torch.zeros(1, 2, 0), torch.full((1, 3), -1)).any()


def test_words_are_runs_of_word_ids_and_other_tokens_stand_alone():
    word_ids = torch.tensor([[-1, 0, 0, 1, -1, -1, 0, -1]])  # two unlabeled tokens, then the second text's word 0
    mask = torch.tensor([[False, True, True, True, True, True, True, False]])
    assert unit_ids(mask, word_ids).tolist() == [[-1, 0, 0, 1, 2, 3, 4, -1]]
