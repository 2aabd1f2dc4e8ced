"""Every weight that a forward pass reads comes from the file: random parts belong to training, and are named."""

import re
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForPreTraining, AutoModelForSequenceClassification

from lightning_xai.commands.setting_checks import resolve_checkpoint
from lightning_xai.models.checkpoints.checkpoint import load_trained
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.models.pretrained.transformers_config import read_config
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.runs.folder import RunFolder
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier


def save(folder, kind="bert", change=dict, auto_class=AutoModelForSequenceClassification, **config):
    """Writes a Hugging Face folder with changed weights, whose config says that it has a classification head."""
    settings = read_config(None, TINY_CONFIGS[kind] | config, dropout=None)
    settings.num_labels = 3
    network = auto_class.from_config(settings)
    network.save_pretrained(folder)
    classifier: Any = AutoModelForSequenceClassification._model_mapping[type(settings)]
    settings.architectures = [classifier.__name__]
    settings.save_pretrained(folder)
    weights = change(load_file(folder / "model.safetensors"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


def without(part):
    return lambda weights: {name: weight for name, weight in weights.items() if part not in name}


def renamed(old, new):
    return lambda weights: {name.replace(old, new): weight for name, weight in weights.items()}


def one_layer_more(weights):
    more = {name.replace("layer.1.", "layer.2."): w.clone() for name, w in weights.items() if "layer.1." in name}
    return weights | more


def fewer_words(weights):
    return {name: w[:5].clone() if "word_embeddings" in name else w for name, w in weights.items()}


def fewer_classes(weights):
    return {name: w[:2].clone() if "classifier" in name else w for name, w in weights.items()}


def not_a_number(weights):
    return weights | {"classifier.bias": torch.full_like(weights["classifier.bias"], float("nan"))}


BROKEN = {
    "no head": ({"change": without("classifier")}, "no weights for classifier.bias and 1 other"),
    "head of another name": ({"change": renamed("classifier", "score")}, "and 1 other, but has weights score.bias"),
    "no bias of the head": ({"change": without("classifier.bias")}, "no weights for classifier.bias"),
    "no pooler": ({"change": without("pooler")}, "no weights for bert.pooler.dense.bias and 1 other"),
    "no layer": ({"change": without("layer.1.")}, r"no weights for bert.encoder.layer.1.*of the encoder"),
    "a layer more": ({"change": one_layer_more}, r"has weights bert.encoder.layer.2"),
    "a prefix more": ({"change": renamed("bert.", "model.bert.")}, "no weights for bert.embeddings"),
    "encoder alone": ({"auto_class": AutoModel}, "no weights for classifier.bias and 1 other"),
    "pretraining": ({"auto_class": AutoModelForPreTraining}, "no weights for classifier.bias and 1 other"),
    "a second head": ({"change": lambda w: w | {"score.weight": torch.ones(1)}}, "has weights score.weight"),
    "roberta, no head": ({"kind": "roberta", "change": without("out_proj")}, "classifier.out_proj.bias and 1 other"),
    "llama, no head": ({"kind": "llama", "change": without("score")}, "no weights for score.weight"),
    "embeddings cut": ({"change": fewer_words}, r"has shape \[5, 16\].*: correct config.json, so that"),
    "head of other classes": ({"change": fewer_classes}, r"has shape \[2\], this network needs \[3\]: use data"),
    "not a number": ({"change": not_a_number}, "the weights transformer.classifier.bias are not finite: download"),
    "llama, no layer": ({"kind": "llama", "change": without("layers.1.")}, "no weights for model.layers.1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_folder_is_not_measured_with_random_or_unread_weights(name, tmp_path):
    arguments, message = BROKEN[name]
    path = save(tmp_path, **arguments)
    with pytest.raises(ValueError, match=message) as error:
        load_trained(path)
    assert str(error.value).startswith(path) and "\n" not in str(error.value)


def language_modeling_head(weights):
    return weights | {"cls.predictions.bias": torch.zeros(100), "cls.predictions.transform.dense.bias": torch.zeros(16)}


SOUND: dict[str, dict[str, Any]] = {
    "whole": {},
    "with a language-modeling head": {"change": language_modeling_head},
    "with a pooler that no head reads": {
        "kind": "roberta", "change": lambda w: w | {"roberta.pooler.dense.bias": torch.zeros(16)},
    },
    "without the pooler that no head reads": {"kind": "big_bird", "change": without("pooler")},
    "with the buffer of an older version": {
        "change": lambda w: w | {"bert.embeddings.position_ids": torch.arange(160).unsqueeze(0)},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_weights_that_change_no_logit_are_no_difference(name, tmp_path):
    path = save(tmp_path, **SOUND[name])
    logits = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        logits.append(load_trained(path).network(text_inputs([5, 9])).logits)
    assert torch.equal(*logits)


def test_a_fit_says_which_weights_start_at_random(tmp_path, capsys):
    Supervised(HFClassifier(save(tmp_path, change=renamed("classifier", "score")), 3)).on_train_start()
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{tmp_path} has no weights for classifier.bias and 1 other: they start at random",
        f"{tmp_path} has weights score.bias and 1 other, which this network does not have: they are not used",
    ]


def test_a_fit_of_a_whole_network_says_nothing(tmp_path, capsys):
    Supervised(HFClassifier(save(tmp_path), 3)).on_train_start()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("network_class", [HFClassifier, PLMCA])
def test_a_fit_needs_all_weights_of_the_encoder(network_class, tmp_path):
    path = save(tmp_path, change=without("layer.1."), auto_class=AutoModel)
    with pytest.raises(ValueError, match=r"no weights for .*encoder.layer.1.* and \d+ others of the encoder"):
        network_class(path, 3)


@pytest.mark.parametrize("network_class", [HFClassifier, PLMCA])
def test_a_random_head_is_not_measured_before_its_fit(network_class, tmp_path):
    objective = Supervised(network_class(save(tmp_path / "encoder", auto_class=AutoModel), 3))
    with pytest.raises(ValueError, match=r"no weights for \w+.* so they would be random: fit this network first"):
        resolve_checkpoint(RunFolder(tmp_path / "run"), None, objective, [])


def test_a_network_that_is_random_on_purpose_is_measured_only_if_that_is_asked_for(tmp_path):
    save(tmp_path / "encoder", auto_class=AutoModel)
    random = HFClassifier(str(tmp_path / "encoder"), 3, pretrained=False)
    for network in (tiny_classifier("bert"), random):
        assert resolve_checkpoint(RunFolder(tmp_path / "run"), "initial", Supervised(network), []) is None
        with pytest.raises(ValueError, match="run has no checkpoint, and its network has no pretrained weights: fit"):
            resolve_checkpoint(RunFolder(tmp_path / "run"), None, Supervised(network), [])


def test_a_prefix_less_layer_too_many_is_named_for_plm_ca(tmp_path):
    network = PLMCA(save(tmp_path, auto_class=AutoModel, change=one_layer_more), 3)
    assert all(re.match(r"encoder\.layer\.2\.", name) for name in network.weight_gaps.unread)
    assert len(network.weight_gaps.unread) == 16


def test_a_fit_that_continues_from_a_checkpoint_says_nothing(tmp_path, capsys):
    objective = Supervised(HFClassifier(save(tmp_path, auto_class=AutoModel), 3))
    checkpoint: dict[str, Any] = {}
    objective.on_save_checkpoint(checkpoint)
    objective.on_load_checkpoint(checkpoint)
    objective.on_train_start()
    assert capsys.readouterr().out == ""
