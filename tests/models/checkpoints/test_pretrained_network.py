"""Whether a network has the pretrained weights at a path, however the path is spelled."""

import pytest

from lightning_xai.models.checkpoints.pretrained_network import is_pretrained_at
from lightning_xai.models.hf_classifier import HFClassifier
from tests.conftest import tiny_classifier


@pytest.fixture
def folder(tmp_path) -> str:
    tiny_classifier("bert").transformer.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.mark.parametrize("spelling", ["{}", "{}/", "{}/../model"])
def test_every_spelling_of_the_path_is_that_of_the_weights(spelling, folder):
    assert is_pretrained_at(HFClassifier(spelling.format(folder), num_classes=3), folder)


def test_another_folder_and_random_weights_are_not(folder, tmp_path):
    assert not is_pretrained_at(HFClassifier(folder, num_classes=3), str(tmp_path))
    assert not is_pretrained_at(HFClassifier(folder, num_classes=3, pretrained=False), folder)
    assert not is_pretrained_at(tiny_classifier("bert"), folder)
