from dataclasses import replace

import pytest
import torch

from lightning_xai.attributions.random import Random
from tests.conftest import text_inputs

TARGETS = torch.tensor([[0, 1], [0, 1], [0, 1]])


def draw(method=None, inputs=None):
    inputs = text_inputs([9, 9, 9]) if inputs is None else inputs
    return (method or Random()).scores(None, inputs, TARGETS[: len(inputs)])


def test_the_same_seed_draws_the_same_scores():
    assert torch.equal(draw(Random(3)), draw(Random(3)))


def test_seed_example_and_class_each_change_the_draw():
    scores = draw()
    assert not torch.equal(scores[0, 0], scores[0, 1])
    assert not torch.equal(scores[0, 0], scores[1, 0])
    assert not torch.equal(scores, draw(Random(1)))


def test_an_example_is_known_by_its_index_not_by_its_place():
    inputs = text_inputs([9, 9, 9])
    turned = draw(inputs=replace(inputs, index=inputs.index.flip(0)))
    assert torch.equal(turned, draw().flip(0))


def test_half_normal_scores_are_the_magnitudes_of_normal_ones():
    assert torch.equal(draw(Random(distribution="normal")).abs(), draw())


def test_normal_scores_have_mean_zero_and_deviation_one():
    scores = draw(Random(distribution="normal"), text_inputs([4000]))
    assert abs(scores.mean()) < 0.05 and abs(scores.std() - 1) < 0.05


def test_examples_without_an_index_are_refused():
    with pytest.raises(ValueError, match="inputs.index is None"):
        draw(inputs=replace(text_inputs([9]), index=None))


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="seed is -1"):
        Random(seed=-1)
