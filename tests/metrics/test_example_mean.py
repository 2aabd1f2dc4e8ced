"""Weighted means over examples, of which a sampler may repeat some."""

import math

import pytest
import torch

from lightning_xai.metrics.example_mean import ExampleMean


def mean_of(*batches) -> float:
    metric = ExampleMean()
    for values, weights, index in batches:
        metric.update(torch.tensor(values), torch.tensor(weights), torch.tensor(index))
    return float(metric.compute())


def test_an_example_that_a_sampler_repeats_counts_once():
    assert mean_of(([4.0, 1.0], [1.0, 3.0], [0, 1]), ([4.0], [1.0], [0])) == 1.75


def test_examples_with_weight_zero_do_not_count():
    assert mean_of(([4.0, 1e30], [2.0, 0.0], [0, 1])) == 4.0


@pytest.mark.filterwarnings("ignore:.*was called before the")
def test_without_examples_or_weights_the_mean_is_undefined():
    assert math.isnan(mean_of()) and math.isnan(mean_of(([4.0], [0.0], [0])))


def test_half_precision_is_summed_in_double_precision():
    metric = ExampleMean()
    for index in range(1000):
        metric.update(torch.tensor([0.1]).bfloat16(), torch.ones(1).bfloat16(), torch.tensor([index]))
    assert float(metric.compute()) == float(torch.tensor(0.1).bfloat16())


def test_reset_forgets_the_examples():
    metric = ExampleMean()
    metric.update(torch.tensor([4.0]), torch.tensor([1.0]), torch.tensor([0]))
    metric.reset()
    metric.update(torch.tensor([2.0]), torch.tensor([1.0]), torch.tensor([0]))
    assert float(metric.compute()) == 2.0
