"""The mean weight of training examples in a term."""

from types import SimpleNamespace

import pytest
import torch

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.objectives.expected_weight import (
    examples,
    expected_weight,
    first_batch,
    require_validation_examples,
)


@pytest.fixture(scope="module")
def data() -> TextDataModule:
    source = Planted(num_train=100, num_validation=5, num_test=5)
    return TextDataModule(source, VocabularyEncoder(words=95), batch_size=8)


def test_examples_come_in_the_order_of_the_split_and_draw_no_numbers(data):
    before = torch.get_rng_state()
    rows = torch.cat([batch.index for batch in examples(data)])
    assert rows.tolist() == list(range(100)) and torch.equal(torch.get_rng_state(), before)
    first = first_batch(data)
    assert first is not None and first.index.tolist() == list(range(64))


def test_the_mean_is_over_all_training_examples(data):
    weight = expected_weight(data, lambda batch: (batch.index < 25).float())
    assert weight == 0.25


def test_a_term_for_which_no_validation_example_counts_is_refused(data):
    require_validation_examples("guidance", data, lambda batch: (batch.index == 4).float())
    with pytest.raises(ValueError, match="no validation example has a weight above 0 in the term guidance"):
        require_validation_examples("guidance", data, lambda batch: torch.zeros(len(batch)))


@pytest.mark.parametrize("data_module", [None, SimpleNamespace(split=None)])
def test_other_data_are_not_read(data_module):
    def fails(batch):
        raise AssertionError("weights were computed")

    assert expected_weight(data_module, fails) is None and first_batch(data_module) is None
    require_validation_examples("guidance", data_module, fails)
