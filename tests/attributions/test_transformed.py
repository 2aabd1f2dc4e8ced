from dataclasses import replace
from typing import cast

import pytest
import torch

from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.random import Random
from lightning_xai.attributions.transformed import Transformed
from lightning_xai.models.base import Classifier
from tests.conftest import text_inputs

NO_MODEL = cast(Classifier, None)  # these scores need none
TARGETS = torch.tensor([[0, 2], [1, 1]])


class Alternating(Random):
    """Scores every row 1, -2, 3, -4, ..."""

    def scores(self, model, inputs, targets):
        numbers = torch.arange(1.0, inputs.input_ids.shape[1] + 1)
        return (numbers * (-1) ** (numbers + 1)).expand(*targets.shape, -1)


def transformed(*transforms):
    inputs = replace(text_inputs([6]), word_ids=torch.tensor([[-1, 0, 0, 1, 2, -1]]))
    return Transformed(Alternating(), list(transforms)).scores(NO_MODEL, inputs, torch.tensor([[0]])).flatten().tolist()


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ("absolute", [1, 2, 3, 4, 5, 6]),
        ("relu", [1, 0, 3, 0, 5, 0]),
        ("zero_special", [0, -2, 3, -4, 5, 0]),
        ("zero_unexplained", [0, -2, 3, -4, 5, 0]),
        ("words_sum", [1, 1, 1, -4, 5, -6]),
        ("words_mean", [1, 0.5, 0.5, -4, 5, -6]),
        ("words_max", [1, 3, 3, -4, 5, -6]),
        ("normalize", pytest.approx([1 / 21, -2 / 21, 3 / 21, -4 / 21, 5 / 21, -6 / 21])),
    ],
)
def test_one_transform(transform, expected):
    assert transformed(transform) == expected


def test_transforms_apply_in_the_order_given():
    assert transformed("zero_special", "relu", "normalize") == pytest.approx([0, 0, 3 / 8, 0, 5 / 8, 0])
    assert transformed("words_sum", "absolute") == [1, 1, 1, 4, 5, 6]
    assert transformed("absolute", "words_sum") == [1, 5, 5, 4, 5, 6]


def test_padding_has_no_share_of_the_sum():
    scores = Transformed(Alternating(), ["absolute", "normalize"]).scores(NO_MODEL, text_inputs([4, 6]), TARGETS)
    assert not scores[0, :, 4:].any()
    torch.testing.assert_close(scores.sum(-1), torch.ones(2, 2))


def test_it_needs_attentions_when_its_method_does():
    assert Transformed(Attention(), ["relu"]).needs_attentions
    assert not Transformed(Gradient(), ["relu"]).needs_attentions


def test_it_passes_the_split_to_its_method():
    class Named(Random):
        def for_split(self, split):
            return Random(seed=len(split))

    named = Named()
    inner = Transformed(named, ["absolute"])
    nested = Transformed(inner, ["normalize"]).for_split("test")
    assert isinstance(nested.method, Transformed) and isinstance(nested.method.method, Random)
    assert nested.transforms == ["normalize"] and nested.method.transforms == ["absolute"]
    assert nested.method.method.seed == 4
    assert inner.method is named  # the original is unchanged


def test_it_is_its_own_method_for_a_split_when_the_inner_method_is():
    plain = Transformed(Gradient(), ["absolute"])
    assert plain.for_split("test") is plain


def test_it_costs_what_its_method_costs():
    assert Transformed(Gradient(), ["relu"]).passes(9, 3) == Gradient().passes(9, 3)


def test_a_method_without_a_graph_cannot_be_trained_through(tiny_hf):
    with pytest.raises(ValueError, match="the scores of Random are not differentiable"):
        Transformed(Random(), ["relu"]).scores(tiny_hf, text_inputs([4, 6]), TARGETS, create_graph=True)


def test_words_without_word_ids_are_refused():
    inputs = replace(text_inputs([4, 6]), word_ids=None)
    with pytest.raises(ValueError, match="word_ids is None"):
        Transformed(Alternating(), ["words_max"]).scores(NO_MODEL, inputs, TARGETS)


@pytest.mark.parametrize("transforms", [[], ["softmax"]])
def test_transforms_that_do_not_exist_are_refused(transforms):
    with pytest.raises(ValueError, match="choose one or more of"):
        Transformed(Gradient(), transforms)
