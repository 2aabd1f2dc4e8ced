"""An adapter is merged by peft, or refused in one line; its base alone is never measured in its place."""

import importlib.util
import json
import os

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForSequenceClassification

from lightning_xai.models.checkpoints.checkpoint import load_trained
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.plm_ca import PLMCA
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier
from tests.models.checkpoints.test_checkpoint import save_checkpoint

needs_peft = pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="needs the package peft")
PLACES = ["beside", "alone", "alone, by hub id"]


def fake_adapter(folder, base=None) -> str:
    """Writes the files of an adapter, as peft names them, beside a whole network if no base is named."""
    folder.mkdir(parents=True, exist_ok=True)
    if base is None:
        tiny_classifier("bert").transformer.save_pretrained(folder)
    save_file({"base_model.model.x.lora_A.weight": torch.zeros(1)}, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "base_model_name_or_path": base or "someone/base"}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return str(folder)


@pytest.mark.parametrize("load", [load_trained, HFClassifier, PLMCA])
@pytest.mark.parametrize("place", PLACES)
def test_without_peft_an_adapter_is_refused_with_a_remedy(load, place, tmp_path, hub_copy, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "peft" else find_spec(name))
    path = fake_adapter(tmp_path / "adapter", None if place == "beside" else "someone/base")
    if place == "alone, by hub id":
        fake_adapter(hub_copy("someone/adapter"), "someone/base")
        path = "someone/adapter"
    message = rf"^{path} holds an adapter \(adapter_config.json\): install peft, or merge .*merge_and_unload"
    with pytest.raises(ValueError, match=message) as error:
        load(path)
    assert "\n" not in str(error.value)


def trained_adapter(folder, *, beside: bool, num_classes: int = 3):
    """Writes a base and a LoRA adapter with a head; returns the adapter's path and the adapted network."""
    import peft

    base = tiny_classifier("bert", num_classes=num_classes).transformer
    (base if beside else base.base_model).save_pretrained(folder / "base")
    options = peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query", "value"], r=2)
    network = AutoModelForSequenceClassification.from_pretrained(folder / "base", num_labels=num_classes)
    adapted = peft.get_peft_model(network, options).eval()
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.3)
    adapted.save_pretrained(folder / "adapter")
    if beside:
        for file in (folder / "base").iterdir():
            file.rename(folder / "adapter" / file.name)
    return str(folder / "adapter"), adapted


@pytest.mark.slow
@needs_peft
@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("beside", [True, False])
def test_an_adapter_is_merged_into_its_base(beside, num_classes, tmp_path):
    path, adapted = trained_adapter(tmp_path, beside=beside, num_classes=num_classes)
    network, inputs = load_trained(path).network, text_inputs([6])
    expected = adapted(inputs.input_ids).logits
    torch.testing.assert_close(network(inputs).logits, expected, rtol=0, atol=1e-6)
    assert network.num_classes == num_classes
    again = load_trained(save_checkpoint(network, tmp_path / "best.ckpt")).network
    assert torch.equal(again(inputs).logits, network(inputs).logits)


@needs_peft
@pytest.mark.parametrize("beside", [True, False])
def test_an_adapter_without_its_head_is_not_measured(beside, tmp_path):
    path, _ = trained_adapter(tmp_path, beside=beside)
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    save_file({name: weight for name, weight in load_file(file).items() if "lora_" in name}, file)
    with pytest.raises(ValueError, match=r"no weights for classifier|does not fit|only one of the two"):
        load_trained(path)


@needs_peft
def test_an_adapter_of_another_architecture_is_refused_in_a_line(tmp_path):
    path, _ = trained_adapter(tmp_path, beside=False)
    deeper = TINY_CONFIGS["bert"] | {"num_hidden_layers": 3}
    AutoModel.from_config(HFClassifier(config=deeper).transformer.config).save_pretrained(tmp_path / "base")
    with pytest.raises(ValueError, match="does not fit") as error:
        load_trained(path)
    assert "\n" not in str(error.value)


@needs_peft
def test_pickled_code_in_an_adapter_never_runs(tmp_path):
    path, _ = trained_adapter(tmp_path, beside=False)
    (tmp_path / "adapter" / "adapter_model.safetensors").unlink()

    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    torch.save({"x": Attack()}, tmp_path / "adapter" / "adapter_model.bin")
    with pytest.raises(ValueError, match="the adapter's weights cannot be read"):
        load_trained(path)
    assert not (tmp_path / "ran").exists()
