"""Evaluation and teachers refuse data whose classes are not those of the network."""

import pytest
import torch

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.models.checkpoint import load_trained
from lightning_xai.objectives.evaluation import Evaluation
from lightning_xai.objectives.token_masking import TokenMasking
from tests.conftest import TINY_CONFIGS, tiny_classifier
from tests.objectives.conftest import quiet_trainer, save_teacher

SIZES = {"vocab_size": 120, "max_position_embeddings": 40}


def network():
    return tiny_classifier("bert", num_classes=2, config=TINY_CONFIGS["bert"] | SIZES)


def trained(tmp_path, names: list[str]) -> str:
    """Returns the checkpoint of a network with the classes `names`."""
    path = save_teacher(network(), tmp_path / "trained.ckpt")
    checkpoint = torch.load(path, weights_only=True)
    torch.save(checkpoint | {"class_names": names}, path)
    assert load_trained(path).class_names == names
    return path


def data() -> TextDataModule:
    """Returns data with class0 and class1."""
    return TextDataModule(
        Planted(num_train=8, num_validation=8, num_test=8), VocabularyEncoder(words=95), num_workers=0
    )


def test_same_classes_in_another_order_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"class 0 is 'class1' in .*trained.ckpt and 'class0' in the data"):
        quiet_trainer(tmp_path).validate(Evaluation(trained(tmp_path, ["class1", "class0"])), data(), verbose=False)


def test_teacher_with_the_classes_in_another_order_is_refused(tmp_path):
    objective = TokenMasking(network(), trained(tmp_path, ["class1", "class0"]))
    with pytest.raises(ValueError, match="give the data's source class_names in the network's order"):
        quiet_trainer(tmp_path, max_epochs=1).fit(objective, data())


@pytest.mark.parametrize("names", [["class0", "class1"], ["LABEL_0", "LABEL_1"]])
def test_classes_in_order_or_under_other_names_are_accepted(names, tmp_path):
    quiet_trainer(tmp_path).validate(Evaluation(trained(tmp_path, names)), data(), verbose=False)
