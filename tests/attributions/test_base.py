"""The settings by which stored scores are told apart, and the shape of scores."""

import pytest
import torch

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.random import Random
from lightning_xai.attributions.transformed import Transformed
from lightning_xai.types import Passes
from tests.conftest import text_inputs


class ScoresWithoutClasses(AttributionMethod):
    def scores(self, model, inputs, targets):
        return inputs.input_ids.float()

    def passes(self, num_tokens, num_targets):
        return Passes(forward=0, backward=0)


def test_settings_of_a_method_include_those_of_the_method_inside():
    settings = Transformed(IntegratedGradients(num_steps=4), ["absolute"]).settings()
    assert settings["transforms"] == ["absolute"]
    assert settings["method"]["class"] == "IntegratedGradients" and settings["method"]["num_steps"] == 4


def test_private_attributes_are_no_settings():
    method = Random()
    vars(method)["_cache"] = 1
    assert "_cache" not in method.settings()


@pytest.mark.parametrize(("num_examples", "num_targets"), [(2, 2), (1, 1), (1, 2)])
def test_scores_without_a_dimension_of_classes_are_refused(tiny_hf, num_examples, num_targets):
    inputs, targets = text_inputs([7] * num_examples), torch.arange(num_targets).expand(num_examples, -1)
    shapes = rf"\[{num_examples}, 7\].*\[{num_examples}, {num_targets}, 7\]"
    with pytest.raises(ValueError, match=f"ScoresWithoutClasses.*{shapes}"):
        ScoresWithoutClasses().attribute(tiny_hf, inputs, targets)
