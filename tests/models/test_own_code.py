"""Python code in a model's folder runs only if the user asks for it, whatever standard input says."""

import io
import json
import sys
import warnings
from collections.abc import Callable

import pytest
import torch
from transformers import dynamic_module_utils

from lightning_xai.data.encoding import TokenizerEncoder
from lightning_xai.models.checkpoints.checkpoint import load_trained
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.objectives.evaluation import Evaluation
from tests.conftest import text_inputs, tiny_classifier
from tests.models.checkpoints.test_checkpoint import save_checkpoint

CODE = """
from pathlib import Path
from transformers import BertConfig, BertForSequenceClassification, BertModel
Path({marker!r}).mkdir(exist_ok=True)

class OwnConfig(BertConfig):
    model_type = {model_type!r}

class OwnModel(BertModel):
    config_class = OwnConfig

class OwnClassifier(BertForSequenceClassification):
    config_class = OwnConfig
    def forward(self, input_ids, attention_mask, position_ids=None, token_type_ids=None, **kwargs):
        output = super().forward(input_ids, attention_mask, token_type_ids, position_ids, **kwargs)
        output.logits = 2 * output.logits
        return output
"""


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """A folder that the code of a model makes; standard input agrees to everything."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 9))
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path / "ran"
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]


def own_code(folder, marker, model_type="own_bert") -> str:
    """Writes a network of three classes with code of its own, which doubles its logits."""
    tiny_classifier("bert").transformer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    auto_map = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    config["auto_map"] = auto_map | {"AutoModelForSequenceClassification": "own.OwnClassifier"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": model_type}))
    (folder / "own.py").write_text(CODE.format(marker=str(marker), model_type=model_type))
    return str(folder)


LOADERS: dict[str, Callable[[str], object]] = {
    "HFClassifier": lambda path: HFClassifier(path, 3),
    "PLMCA": lambda path: PLMCA(path, 3),
    "load_trained": load_trained,
    "Evaluation": Evaluation,
}


@pytest.mark.parametrize("name", LOADERS)
def test_own_code_of_a_network_does_not_run(name, tmp_path, marker):
    path = own_code(tmp_path / "model", marker)
    with pytest.raises(ValueError, match=f"{path}: needs Python code .* set `trust_remote_code: true") as error:
        LOADERS[name](path)
    assert not marker.exists() and "\n" not in str(error.value)


def test_own_code_for_a_known_architecture_does_not_run_and_is_named(tmp_path, marker):
    path = own_code(tmp_path / "model", marker, model_type="bert")
    with pytest.warns(UserWarning, match=f"{path}: its Python code is not run"):
        network = load_trained(path).network
    assert not marker.exists()
    inputs = text_inputs([5])
    assert torch.equal(network(inputs).logits, tiny_classifier("bert")(inputs).logits)


@pytest.mark.parametrize("auto_map", [["own.OwnTokenizer", None], {"AutoTokenizer": [None, "own.OwnTokenizer"]}])
def test_own_code_of_a_tokenizer_does_not_run(auto_map, tmp_path, marker):
    path = own_code(tmp_path / "model", marker)
    (tmp_path / "model" / "tokenizer_config.json").write_text(json.dumps({"auto_map": auto_map}))
    (tmp_path / "model" / "vocab.txt").write_text("[PAD]\n[UNK]\ngood")
    with pytest.raises(ValueError) as error:
        TokenizerEncoder(path)
    assert not marker.exists() and "\n" not in str(error.value)


def test_own_code_runs_where_the_user_asks_for_it(tmp_path, marker):
    path = own_code(tmp_path / "model", marker)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = load_trained(path, trust_remote_code=True).network
    assert marker.exists()
    inputs = text_inputs([5, 9])
    assert torch.allclose(network(inputs).logits, 2 * tiny_classifier("bert")(inputs).logits)


def test_a_checkpoint_runs_own_code_only_if_asked_again(tmp_path, marker):
    network = HFClassifier(own_code(tmp_path / "model", marker), 3, trust_remote_code=True).eval()
    path = save_checkpoint(network, tmp_path / "best.ckpt")
    marker.rmdir()
    with pytest.raises(ValueError, match="needs Python code from .*model, which is not run"):
        load_trained(path)
    assert not marker.exists()
    loaded, inputs = load_trained(path, trust_remote_code=True).network, text_inputs([5])
    assert torch.equal(loaded(inputs).logits, network(inputs).logits)


def test_a_config_that_names_a_downloaded_kernel_gets_a_kernel_of_its_own(tmp_path):
    tiny_classifier("bert").transformer.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"attn_implementation": "someone/kernel"}))
    assert HFClassifier(str(tmp_path), 3).attention_implementation == "sdpa"
