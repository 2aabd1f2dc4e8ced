"""Which callbacks get whose attributions, which examples count as the first, and rows of an explained batch."""

import pytest
import torch
from lightning import Callback

from lightning_xai.attributions.random import Random
from lightning_xai.callbacks.base import (
    ExplainedBatch,
    are_first_examples,
    receivers_after,
    source_before,
    split_of_loader,
)
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.types import Attribution, Batch, TextInputs
from tests.callbacks.conftest import Recorder, compute, planted_data, trainer


def explained_batch() -> ExplainedBatch:
    """Returns three explained texts whose probabilities are their token ids over 10."""
    inputs = TextInputs.of_ids([[5], [6], [7]])

    def predict(inputs, embed_mask=None):
        return inputs.input_ids / 10

    attribution = Attribution(
        scores=inputs.input_ids.unsqueeze(1).float(),
        targets=torch.zeros(3, 1).long(),
        target_mask=torch.ones(3, 1).bool(),
        token_mask=inputs.token_mask,
    )
    once = PredictOnce(predict, inputs, decision_threshold=0.3, pad_id=4)
    return ExplainedBatch(Batch(inputs, torch.tensor([0, 1, 0])), {"method": attribution}, once, "test")


def test_rows_of_an_explained_batch_keep_what_belongs_to_them():
    rows = explained_batch()[torch.tensor([True, False, True])]
    assert rows.batch.index.tolist() == [0, 2] and rows.batch.labels.tolist() == [0, 0]
    assert rows.attributions["method"].scores.flatten().tolist() == [5, 7]
    assert torch.equal(rows.predict(rows.batch.inputs), torch.tensor([[0.5], [0.7]]))
    assert (rows.predict.decision_threshold, rows.predict.pad_id, rows.split) == (0.3, 4, "test")


def test_receivers_stand_between_one_source_and_the_next(tmp_path):
    first, second = compute(Random()), compute(Random(), targets="gold")
    before, after, last = Recorder(), Recorder(), Recorder()
    callbacks = trainer(tmp_path, before, first, after, Callback(), second, last)
    assert receivers_after(callbacks, first) == [after]
    assert receivers_after(callbacks, second) == [last]


def test_source_is_the_last_one_before(tmp_path):
    first, second, last = compute(Random()), compute(Random(), targets="gold"), Recorder()
    assert source_before(trainer(tmp_path, first, second, last), last, "Recorder") is second


def test_callback_without_a_source_before_it_is_refused_by_its_label(tmp_path):
    recorder = Recorder()
    with pytest.raises(ValueError, match="^the recorder needs a ComputeAttributions before it"):
        source_before(trainer(tmp_path, recorder, compute(Random())), recorder, "the recorder")


def test_test_loaders_without_a_data_module_are_numbered(tmp_path):
    assert [split_of_loader(trainer(tmp_path), position) for position in (0, 1)] == ["test", "test1"]


def test_first_examples_are_the_first_that_a_subsampled_split_loads(objective, tmp_path):
    recorder, data = Recorder(), planted_data(max_examples={"test": 4})
    run = trainer(tmp_path, compute(Random(), targets="gold", max_examples=2), recorder)
    run.test(objective, datamodule=data, verbose=False)
    loaded = data.split("test").index.tolist()
    assert loaded != [0, 1, 2, 3]
    assert sorted(index for split, _, index, _ in recorder.scores if split == "test") == loaded[:2]


def test_first_examples_without_a_data_module_are_those_of_the_lowest_indices(tmp_path):
    batch = explained_batch().batch
    assert are_first_examples(trainer(tmp_path), batch, "test", 2).tolist() == [True, True, False]
    assert are_first_examples(trainer(tmp_path), batch, "test", None).all()
