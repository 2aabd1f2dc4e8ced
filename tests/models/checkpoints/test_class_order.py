"""The classes of a trained network are put into the order of the data, or it is refused and left as it was."""

import json

import pytest
import torch

from lightning_xai.models.bilstm import BiLSTMAttention
from lightning_xai.models.checkpoints.class_order import (
    align_classes,
    check_class_order,
    pretrained_class_names,
    reorder_classes,
)
from lightning_xai.models.hf_classifier import HFClassifier
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

NAMES = ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"]
DATA = ["entailment", "neutral", "contradiction"]


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "electra", "deberta-v2", "modernbert", "llama"])
def test_logits_have_the_order_of_the_data(kind, capsys):
    model, inputs = tiny_classifier(kind), text_inputs([5, 9])
    before = model(inputs).logits
    assert align_classes(model, NAMES, DATA, "folder") == DATA
    assert torch.allclose(model(inputs).logits, before[:, [2, 1, 0]], atol=1e-5)
    assert capsys.readouterr().out == f"folder: the classes {NAMES} are put into the order of the data\n"


def test_logits_have_the_order_of_the_data_under_autocast():
    model, inputs = tiny_classifier("bert"), text_inputs([5, 9])
    before = model(inputs).logits
    with torch.autocast("cpu", torch.bfloat16):
        assert reorder_classes(model, [2, 1, 0])
        after = model(inputs).logits
    assert torch.allclose(after.float(), before[:, [2, 1, 0]], atol=0.1)


def test_other_heads_have_the_order_of_the_data():
    plm_ca, lstm, inputs = tiny_classifier("plm_ca"), BiLSTMAttention(100, num_classes=3).eval(), text_inputs([5, 9])
    for model, order in ((plm_ca, [3, 0, 4, 1, 2]), (lstm, [1, 2, 0])):
        before = model(inputs).logits
        assert reorder_classes(model, order)
        assert torch.allclose(model(inputs).logits, before[:, order], atol=1e-5)


def test_head_that_cannot_be_reordered_is_left_as_it_was_and_refused_with_both_lists():
    names = [f"c{i}" for i in range(16)]  # as many as hidden units, so the rows of a hidden layer look like classes
    model = tiny_classifier("roberta", num_classes=16)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(ValueError, match=r"class 0 is 'c0' in folder, but 'c15' .*\['c0', .*\['c15', "):
        align_classes(model, names, names[::-1], "folder")
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


@pytest.mark.parametrize(
    "names",
    [
        ["LABEL_0", "LABEL_1", "LABEL_2"],
        ["0", "1", "2"],
        ["Class 1", "Class 2", "Class 3"],
        ["entailment", "no_opinion", "contradiction"],  # one class is left over
    ],
)
def test_order_that_names_do_not_tell_is_left_and_said(names, capsys):
    model = tiny_classifier("bert")
    before = model.state_dict()["transformer.classifier.bias"].clone()
    assert align_classes(model, names, DATA, "folder") == DATA
    assert torch.equal(model.state_dict()["transformer.classifier.bias"], before)
    assert capsys.readouterr().out == f"folder: its classes {names} are assumed to be {DATA}, in this order\n"


@pytest.mark.parametrize("data", [["0", "1", "2"], ["class0", "class1", "class2"]])
def test_data_whose_names_are_numbers_take_the_order_of_the_network(data, capsys):
    assert align_classes(tiny_classifier("bert"), NAMES, data, "folder") == data
    assert "in this order" in capsys.readouterr().out
    check_class_order(NAMES, data, "folder")
    assert capsys.readouterr().out == f"folder: its classes {NAMES} are assumed to be {data}, in this order\n"


@pytest.mark.parametrize(
    "names",
    [
        ["neutral", "yes", "no"],
        ["entailment", "contradiction", "other"],
        ["nein", "egal", "ja"],
        ["contra", "Neutral", "entail"],  # by position, two classes would be exchanged
        ["2", "1", "0"],
        ["401", "250", "038"],
    ],
)
def test_names_that_do_not_tell_which_classes_are_equal_are_refused(names):
    for check in (align_classes, lambda model, *rest: check_class_order(*rest)):
        with pytest.raises(ValueError, match=r"folder has the classes \['.*the data has \['entailment', 'neutral'"):
            check(tiny_classifier("bert"), names, DATA, "folder")


@pytest.mark.parametrize("names", [["Entailment", "neu-tral", "CONTRA DICTION"], DATA])
def test_names_in_the_order_of_the_data_change_nothing(names, capsys):
    model = tiny_classifier("bert")
    assert align_classes(model, names, DATA, "folder") == DATA and capsys.readouterr().out == ""
    check_class_order(names, DATA, "folder")


def test_names_that_the_user_gives_count_if_the_network_has_other_names(capsys):
    check_class_order(["ja", "egal", "nein"], DATA, "folder", DATA)
    with pytest.raises(ValueError, match="class 0 is 'contradiction' in folder, but 'entailment' in the data"):
        check_class_order(["nein", "egal", "ja"], DATA, "folder", DATA[::-1])
    check_class_order(DATA, DATA, "folder", NAMES)  # a checkpoint whose classes were put into the order of the data


@pytest.mark.slow
def test_only_a_head_from_a_folder_has_names(tmp_path):
    network = tiny_classifier("bert")
    network.transformer.config.id2label = dict(enumerate(NAMES))
    network.transformer.save_pretrained(tmp_path / "head")
    network.transformer.bert.save_pretrained(tmp_path / "encoder")
    assert pretrained_class_names(HFClassifier(str(tmp_path / "head"), num_classes=3)) == NAMES
    assert pretrained_class_names(HFClassifier(str(tmp_path / "head"), num_classes=3, pretrained=False)) is None
    assert pretrained_class_names(HFClassifier(str(tmp_path / "encoder"), num_classes=3)) is None
    assert pretrained_class_names(HFClassifier(config=TINY_CONFIGS["bert"], num_classes=3), DATA) is None
    assert pretrained_class_names(HFClassifier(str(tmp_path / "head"), num_classes=3), DATA) == DATA
    with pytest.raises(ValueError, match=r"network_classes is \['a', 'b'\]: name each of the 3 classes once"):
        pretrained_class_names(HFClassifier(str(tmp_path / "head"), num_classes=3), ["a", "b"])


@pytest.mark.parametrize(
    ("id2label", "message"),
    [
        ({"1": "a", "2": "b", "3": "c"}, "id2label has the ids 1, 2, 3: number the classes from 0 to 2"),
        ({"0": "a", "2": "b", "3": "c"}, "id2label has the ids 0, 2, 3: number the classes from 0 to 2"),
        ({"0": "a", "1": "b", "2": "a"}, "id2label gives two classes the name 'a': give every class its own name"),
    ],
)
def test_names_of_a_trained_head_that_name_no_class_or_two_are_refused(tmp_path, id2label, message):
    tiny_classifier("bert").transformer.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"id2label": id2label}))
    with pytest.raises(ValueError, match=message):
        pretrained_class_names(HFClassifier(str(tmp_path), num_classes=3))
    assert pretrained_class_names(HFClassifier(str(tmp_path), num_classes=3, pretrained=False)) is None
