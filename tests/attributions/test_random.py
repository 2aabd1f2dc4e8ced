from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Tensor

from lightning_xai.attributions.random import Random
from lightning_xai.models.base import Classifier
from lightning_xai.types import TextInputs
from tests.conftest import text_inputs

NO_MODEL = cast(Classifier, None)  # random scores need none
TARGETS = torch.tensor([[0, 1], [0, 1], [0, 1]])


def draw(method: Random | None = None, inputs: TextInputs | None = None) -> Tensor:
    inputs = text_inputs([9, 9, 9]) if inputs is None else inputs
    return (method or Random()).scores(NO_MODEL, inputs, TARGETS[: len(inputs)])


def test_the_same_seed_draws_the_same_scores():
    assert torch.equal(draw(Random(3)), draw(Random(3)))


def test_seed_example_and_class_each_change_the_draw():
    scores = draw()
    assert not torch.equal(scores[0, 0], scores[0, 1])
    assert not torch.equal(scores[0, 0], scores[1, 0])
    assert not torch.equal(scores, draw(Random(1)))


def test_the_draw_depends_on_the_index_not_on_the_row():
    inputs = text_inputs([9, 9, 9])
    assert inputs.index is not None
    reversed_scores = draw(inputs=replace(inputs, index=inputs.index.flip(0)))
    assert torch.equal(reversed_scores, draw().flip(0))


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
