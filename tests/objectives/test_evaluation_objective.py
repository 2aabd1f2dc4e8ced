"""Evaluating a trained network on data that may not be its own."""

import pytest
import torch

from lightning_xai.data.encoding import VocabularyEncoder
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.models.checkpoint import class_names
from lightning_xai.objectives.evaluation import Evaluation
from tests.conftest import TINY_CONFIGS, tiny_classifier
from tests.objectives.conftest import quiet_trainer, save_teacher

SIZES = {"vocab_size": 120, "max_position_embeddings": 40}


def validate(tmp_path, names: list[str]) -> None:
    """Validates a checkpoint of a network with the classes `names` on data with class0 and class1."""
    network = tiny_classifier("bert", num_classes=2, config=TINY_CONFIGS["bert"] | SIZES)
    path = save_teacher(network, tmp_path / "trained.ckpt")
    checkpoint = torch.load(path, weights_only=True)
    torch.save(checkpoint | {"class_names": names}, path)
    assert class_names(path) == names
    data = TextDataModule(Planted(num_train=8, num_validation=8, num_test=8), VocabularyEncoder(), num_workers=0)
    quiet_trainer(tmp_path).validate(Evaluation(path), data, verbose=False)


def test_same_classes_in_another_order_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"class 0 is 'class1' in .*trained.ckpt and 'class0' in the data"):
        validate(tmp_path, ["class1", "class0"])


@pytest.mark.parametrize("names", [["class0", "class1"], ["LABEL_0", "LABEL_1"]])
def test_classes_in_order_or_under_other_names_are_accepted(names, tmp_path):
    validate(tmp_path, names)
