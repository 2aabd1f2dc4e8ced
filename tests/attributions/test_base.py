"""The settings by which stored scores are told apart."""

from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.random import Random
from lightning_xai.attributions.transformed import Transformed


def test_settings_of_a_method_include_those_of_the_method_inside():
    settings = Transformed(IntegratedGradients(num_steps=4), ["absolute"]).settings()
    assert settings["transforms"] == ["absolute"]
    assert settings["method"]["class"] == "IntegratedGradients" and settings["method"]["num_steps"] == 4


def test_private_attributes_are_no_settings():
    method = Random()
    vars(method)["_cache"] = 1
    assert "_cache" not in method.settings()
