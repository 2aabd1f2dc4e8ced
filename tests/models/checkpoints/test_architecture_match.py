"""Architectures that differ in a forward pass are told apart where all shapes agree; other differences are none."""

from typing import Any

import pytest
import torch

from lightning_xai.commands.setting_checks import check_checkpoint
from lightning_xai.models.bilstm import BiLSTMAttention
from lightning_xai.models.checkpoints.architecture_match import (
    check_architecture,
    first_setting_difference,
    network_spec,
)
from lightning_xai.models.checkpoints.loading import copy_weights, first_difference
from lightning_xai.objectives.supervised import Supervised
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

BERT = TINY_CONFIGS["bert"]
MODERN = TINY_CONFIGS["modernbert"]
# name of the setting -> two networks whose weights have the same shapes, but whose logits differ
DIFFERENT = {
    "num_attention_heads": [("bert", BERT), ("bert", BERT | {"num_attention_heads": 4})],
    "hidden_act": [("bert", BERT), ("bert", BERT | {"hidden_act": "relu"})],
    "layer_norm_eps": [("bert", BERT), ("bert", BERT | {"layer_norm_eps": 0.1})],
    "classifier_pooling": [("modernbert", MODERN), ("modernbert", MODERN | {"classifier_pooling": "mean"})],
    "local_attention": [("modernbert", MODERN), ("modernbert", MODERN | {"local_attention": 2})],
    "pos_att_type": [("deberta-v2", TINY_CONFIGS["deberta-v2"] | {"share_att_key": True, "pos_att_type": types})
                     for types in (["p2c", "c2p"], ["c2p"])],
}  # fmt: skip
WITHOUT_EFFECT: dict[str, dict[str, Any]] = {
    "dropout": {"hidden_dropout_prob": 0.4, "classifier_dropout": 0.2},
    "start": {"initializer_range": 0.5},
    "cache": {"use_cache": False},
    "unread key": {"finetuning_task": "sst"},
}


def networks(name):
    return [tiny_classifier(kind, config=config) for kind, config in DIFFERENT[name]]


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_setting_that_changes_logits_is_named_with_both_values(name):
    one, two = networks(name)
    assert first_difference(one.state_dict(), two.state_dict()) is None
    assert not torch.allclose(one(text_inputs([9])).logits, two(text_inputs([9])).logits)
    with pytest.raises(
        ValueError, match=f"^x.ckpt does not fit this configuration: {name} is .* in the file, but .* here"
    ) as error:
        check_architecture(network_spec(one), two, "x.ckpt")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "one", "two"),
    [
        ("segment_length", {"segment_length": 8}, {"segment_length": 4}),
        ("mask_mode", {"mask_mode": "correct"}, {"mask_mode": "legacy"}),
        ("multilabel", {"multilabel": True}, {"multilabel": False}),
    ],
)
def test_an_argument_of_plm_ca_is_named(name, one, two):
    first, second = tiny_classifier("plm_ca", **one), tiny_classifier("plm_ca", **two)
    difference = first_setting_difference(network_spec(first), network_spec(second))
    assert difference == (name, one[name], two[name])


def test_another_class_is_named():
    difference = first_setting_difference(network_spec(tiny_classifier("bert")), network_spec(BiLSTMAttention(9)))
    assert difference is not None and difference.name == "class_path"


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_a_setting_without_effect_on_logits_is_no_difference(name):
    config = {**BERT}
    one, two = tiny_classifier("bert"), tiny_classifier("bert", config=config)
    for key, value in WITHOUT_EFFECT[name].items():
        setattr(two.transformer.config, key, value)
    assert first_setting_difference(network_spec(one), network_spec(two)) is None
    assert torch.equal(one(text_inputs([9])).logits, two(text_inputs([9])).logits)


def test_arguments_of_training_and_explanation_are_no_difference():
    one = tiny_classifier("bert", dropout=0.4, embedding="module")
    one.set_attention("eager")
    assert first_setting_difference(network_spec(one), network_spec(tiny_classifier("bert"))) is None
    lstm = BiLSTMAttention(9, mask_id=4, mask_row="random")
    assert first_setting_difference(network_spec(lstm), network_spec(BiLSTMAttention(9))) is None


@pytest.fixture
def checkpoint(tmp_path):
    """The path of a checkpoint of a BERT with two heads."""
    objective = Supervised(tiny_classifier("bert"))
    saved = {"state_dict": objective.state_dict()}
    objective.on_save_checkpoint(saved)
    torch.save(saved, tmp_path / "best.ckpt")
    return str(tmp_path / "best.ckpt")


def test_a_checkpoint_is_refused_for_another_architecture_before_and_while_it_is_loaded(checkpoint):
    check_checkpoint(checkpoint, Supervised(tiny_classifier("bert", dropout=0.3)), [])
    other = Supervised(networks("num_attention_heads")[1])
    with pytest.raises(ValueError, match=f"{checkpoint} does not .*: num_attention_heads is 2 in the file, but 4"):
        check_checkpoint(checkpoint, other, [])
    with pytest.raises(ValueError, match="num_attention_heads is 2 in the file, but 4 here"):
        other.on_load_checkpoint(torch.load(checkpoint, weights_only=True))


def test_a_checkpoint_without_its_architecture_is_loaded_with_a_line(checkpoint, capsys):
    saved = torch.load(checkpoint, weights_only=True)
    del saved["network"]
    Supervised(tiny_classifier("bert")).on_load_checkpoint(saved)
    assert "only the shapes of weights are compared" in capsys.readouterr().out


def test_a_teacher_of_another_architecture_is_refused():
    teacher, student = networks("hidden_act")
    with pytest.raises(ValueError, match="hidden_act is 'gelu' in the teacher runs/teacher and 'relu' in the network"):
        copy_weights(teacher, student, "runs/teacher")
