"""Classes of a network are those of the data: in fit, validate and test, of folders, checkpoints and teachers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import DatasetDict
from transformers import AutoConfig, AutoModelForCausalLM

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.base import TextSource, rows_to_splits
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.functional.classes.class_names import normalized_name
from lightning_xai.models.checkpoints.checkpoint import load_trained
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.verbalizer_lm import VerbalizerLM
from lightning_xai.objectives.evaluation import Evaluation
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.token_masking import TokenMasking
from tests.conftest import TINY_CONFIGS, tiny_classifier
from tests.objectives.conftest import quiet_trainer, save_teacher

SIZES = {"vocab_size": 120, "max_position_embeddings": 40}
NAMES = ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"]  # of the network
TEXTS = [f"w{i} w{i + 20} w{3 * i}" for i in range(16)]


def network():
    return tiny_classifier("bert", num_classes=3, config=TINY_CONFIGS["bert"] | SIZES)


class Labelled(TextSource):
    """Texts with the classes that the network predicts, whose names may be in another order."""

    def __init__(self, class_names: list[str]) -> None:
        self.class_names = class_names

    def load(self) -> DatasetDict:
        encoded = TextDataModule(Plain(), VocabularyEncoder(words=95)).predict_dataloader()
        predicted, labeler = {}, network()
        for batch in encoded:
            for index, label in zip(batch.index.tolist(), labeler(batch.inputs).logits.argmax(dim=1), strict=True):
                predicted[index] = NAMES[int(label)].casefold()
        assert len(set(predicted.values())) > 1
        lowercase = [normalized_name(name) for name in self.class_names]
        rows = [{"text": text, "labels": lowercase.index(predicted[i]), "id": str(i)} for i, text in enumerate(TEXTS)]
        return rows_to_splits({"train": rows, "validation": rows, "test": rows})


class Plain(TextSource):
    """The texts without labels of their own."""

    class_names = NAMES

    def load(self) -> DatasetDict:
        return rows_to_splits({"test": [{"text": text, "labels": 0, "id": str(i)} for i, text in enumerate(TEXTS)]})


def data(class_names: list[str]) -> TextDataModule:
    return TextDataModule(Labelled(class_names), VocabularyEncoder(words=95))


def checkpoint(tmp_path, names: list[str]) -> str:
    """Returns the checkpoint of a network with the classes `names`."""
    path = save_teacher(network(), tmp_path / "trained.ckpt")
    torch.save(torch.load(path, weights_only=True) | {"class_names": names}, path)
    assert load_trained(path).class_names == names
    return path


def folder(tmp_path, names: list[str]) -> str:
    """Returns a Hugging Face folder of a network with the classes `names`."""
    saved = network().transformer
    saved.config.id2label = dict(enumerate(names))
    saved.save_pretrained(tmp_path / "folder")
    return str(tmp_path / "folder")


def accuracy(results: list) -> float:
    return results[0]["val/accuracy"]


ORDERS = [["entailment", "neutral", "contradiction"], ["neutral", "contra-diction", "ENTAIL_MENT"]]


@pytest.mark.filterwarnings("ignore:.*texts in split")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("saved", [checkpoint, folder])
def test_classes_in_another_order_are_put_into_the_order_of_the_data(saved, order, tmp_path):
    objective, module, trainer = Evaluation(saved(tmp_path, NAMES)), data(order), quiet_trainer(tmp_path)
    for _ in range(2):  # the second time the classes have the order of the data already
        assert accuracy(trainer.validate(objective, module, verbose=False)) == 1.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*texts in split")
@pytest.mark.parametrize("saved", [checkpoint, folder])
def test_classes_with_other_names_are_refused_unless_the_user_names_them(saved, tmp_path):
    path, german = saved(tmp_path, ["nein", "egal", "ja"]), ["contradiction", "neutral", "entailment"]
    with pytest.raises(ValueError, match=r"has the classes \['nein', .*: set model.init_args.network_classes"):
        quiet_trainer(tmp_path).validate(Evaluation(path), data(ORDERS[0]), verbose=False)
    for objective in (
        Evaluation(path, network_classes=german),
        Supervised(HFClassifier(path, num_classes=3), network_classes=german) if saved == folder else None,
    ):
        if objective is not None:
            assert accuracy(quiet_trainer(tmp_path).validate(objective, data(ORDERS[0]), verbose=False)) == 1.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*texts in split")
def test_a_fit_starts_from_a_pretrained_head_with_the_classes_of_the_data(tmp_path):
    objective = Supervised(HFClassifier(folder(tmp_path, NAMES), num_classes=3))
    assert accuracy(quiet_trainer(tmp_path).validate(objective, data(ORDERS[0]), verbose=False)) == 1.0
    trainer = quiet_trainer(tmp_path, max_epochs=1, limit_train_batches=1)
    objective.optimizer = lambda parameters: torch.optim.SGD(parameters, lr=0.0)
    trainer.fit(objective, data(ORDERS[0]))
    assert float(trainer.callback_metrics["val/accuracy"]) == 1.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*texts in split")
def test_a_teacher_has_the_classes_of_the_data(tmp_path):
    objective = TokenMasking(network(), checkpoint(tmp_path, NAMES))
    module = data(ORDERS[0])
    trainer = quiet_trainer(tmp_path, max_epochs=1, limit_train_batches=1, limit_val_batches=0)
    trainer.fit(objective, module)
    batch = next(iter(module.predict_dataloader()))
    assert torch.equal(objective._teacher[0](batch.inputs).logits.argmax(dim=1), batch.labels)


@pytest.mark.filterwarnings("ignore:.*texts in split")
@pytest.mark.parametrize("names", [["ENTAILMENT", "ja", "nein"], ["NEUTRAL", "NO", "CONTRADICTION"]])
def test_classes_that_the_names_do_not_tell_are_refused_with_both_lists(names, tmp_path):
    with pytest.raises(
        ValueError, match=rf"trained.ckpt has the classes \['{names[0]}'.*the data has \['contradiction'"
    ):
        quiet_trainer(tmp_path).validate(
            Evaluation(checkpoint(tmp_path, names)), data([n.casefold() for n in NAMES]), verbose=False
        )


@pytest.mark.filterwarnings("ignore:.*texts in split")
@pytest.mark.parametrize("names", [NAMES, ["LABEL_0", "LABEL_1", "LABEL_2"]])
def test_classes_in_order_or_without_names_are_accepted(names, tmp_path):
    objective = Evaluation(checkpoint(tmp_path, names))
    assert accuracy(quiet_trainer(tmp_path).validate(objective, data(NAMES), verbose=False)) == 1.0


def language_model(tmp_path, **arguments):
    config: dict[str, Any] = {**TINY_CONFIGS["llama"]}
    AutoModelForCausalLM.from_config(AutoConfig.for_model(**config)).save_pretrained(tmp_path)
    return VerbalizerLM(str(tmp_path), 3, [7, 9, 11], **arguments)


def test_a_network_whose_pretrained_weights_suffice_is_evaluated_as_it_is(tmp_path):
    network = language_model(tmp_path)
    evaluation = Evaluation(network=network)
    assert evaluation.network is network and not network.training
    assert evaluation.path == str(tmp_path) and evaluation.encoder is not None
    assert evaluation.encoder["init_args"] == {"path": str(tmp_path)}


def test_a_network_with_random_weights_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match="the weights of VerbalizerLM are random: give the `path` of pretrained weights"
    ):
        Evaluation(network=language_model(tmp_path, pretrained=False))
    with pytest.raises(ValueError, match="no weights for score.weight, so they would be random"):
        Evaluation(network=HFClassifier(str(tmp_path), num_classes=3))


def test_a_path_or_a_network_is_needed_and_not_both(tmp_path):
    with pytest.raises(ValueError, match="Evaluation has neither path nor network"):
        Evaluation()
    with pytest.raises(ValueError, match="Evaluation has both a path and a network"):
        Evaluation(str(tmp_path), network=language_model(tmp_path))


@pytest.mark.slow
def test_a_network_with_exclusive_classes_is_refused_on_multilabel_data_with_a_remedy_that_works(tmp_path):
    path = folder(tmp_path, ["class0", "class1", "class2"])
    source = Planted(num_classes=3, multilabel=True, num_train=4, num_validation=4, num_test=4)
    data = TextDataModule(source, VocabularyEncoder(words=95))
    with pytest.raises(ValueError, match=r'sigmoid per class, write "problem_type": .* into .*folder/config.json$'):
        quiet_trainer(tmp_path).validate(Evaluation(path), data, verbose=False)
    file = Path(path, "config.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"problem_type": "multi_label_classification"}))
    quiet_trainer(tmp_path).validate(Evaluation(path), data, verbose=False)
    source = Planted(num_classes=3, num_train=4, num_validation=4, num_test=4)
    plain = TextDataModule(source, VocabularyEncoder(words=95))
    with pytest.raises(ValueError, match="folder is multi-label, but the data are not: choose other data by --data"):
        quiet_trainer(tmp_path).validate(Evaluation(path), plain, verbose=False)
    given = HFClassifier(path, num_classes=3)
    with pytest.raises(ValueError, match="the data are multi-label, but .*: use data with one label per text$"):
        quiet_trainer(tmp_path).validate(Evaluation(network=given), data, verbose=False)
