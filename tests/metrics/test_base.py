"""The network as metrics see it, which rows of an attribution count, and the shape of records."""

import re

import pytest
import torch

from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.metrics.complexity import Entropy
from lightning_xai.metrics.predict_once import PredictOnce
from tests.metrics.conftest import bag_of_words, explained_batch


def test_threshold_of_the_network_decides_which_classes_are_predicted():
    attribution, batch = explained_batch([9, 14, 6])
    probs = bag_of_words(batch.inputs).gather(1, attribution.targets)
    for threshold in (0.3, 0.7):
        metric = Entropy(explained="predicted")
        metric.update(attribution, batch, PredictOnce(bag_of_words, batch.inputs, decision_threshold=threshold))
        assert len(metric.table()[0]) == int((attribution.target_mask & (probs > threshold)).sum())


def test_facts_of_the_network_hold_for_part_of_the_batch():
    _, batch = explained_batch([9, 14, 6])
    once = PredictOnce(bag_of_words, batch.inputs, decision_threshold=0.3, pad_id=7)
    part = once.for_inputs(batch.inputs[:2])
    assert (part.decision_threshold, part.pad_id) == (0.3, 7)
    assert torch.equal(part(part.inputs), bag_of_words(batch.inputs)[:2])
    assert once.for_inputs(batch.inputs) is once


def test_own_inputs_are_predicted_once():
    _, batch = explained_batch([9, 14])
    calls = []

    def predict(inputs, embed_mask=None):
        calls.append(inputs)
        return bag_of_words(inputs, embed_mask)

    once = PredictOnce(predict, batch.inputs)
    assert torch.equal(once(batch.inputs), once(batch.inputs)) and len(calls) == 1
    once(batch.inputs[:1])
    assert len(calls) == 2


class Zeros(AttributionMetric):
    columns = ("mean", "largest")

    def __init__(self, shape):
        super().__init__()
        self.shape = shape

    def measure(self, attribution, batch, predict):
        return torch.zeros(self.shape)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1), (2, 2)])
def test_records_of_another_shape_are_refused(shape):
    attribution, batch = explained_batch([9, 14])
    with pytest.raises(ValueError, match=rf"Zeros.*{re.escape(str(list(shape)))}.*\[2, 3, 2\]"):
        Zeros(shape).update(attribution, batch, bag_of_words)


def test_a_metric_without_columns_says_so():
    class NoColumns(AttributionMetric):
        def measure(self, attribution, batch, predict):
            return torch.zeros(2, 3, 1)

    attribution, batch = explained_batch([9, 14])
    with pytest.raises(ValueError, match="NoColumns has no `columns`: name the numbers that `measure` returns"):
        NoColumns().update(attribution, batch, bag_of_words)
