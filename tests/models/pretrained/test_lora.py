"""LoRA: only adapters and the head are trained and stored; the merged network is an ordinary one."""

import copy
import importlib.util
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lightning_xai.attributions.alti import ALTI
from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.decompx import DecompX
from lightning_xai.attributions.decompx_reverse import DecompXReverse
from lightning_xai.attributions.glob_enc import GlobEnc
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.occlusion import Occlusion
from lightning_xai.models.checkpoints.checkpoint import load_trained
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.huggingface import HuggingFaceClassifier
from lightning_xai.models.pretrained.lora import merge_adapters
from lightning_xai.models.verbalizer_lm import VerbalizerLM
from lightning_xai.objectives.supervised import Supervised
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier
from tests.models.test_verbalizer_lm import TEXTS
from tests.objectives.conftest import save_teacher

needs_peft = pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="needs the extra lora")
LORA = {"rank": 2, "alpha": 4.0}


@pytest.fixture
def bases(tmp_path):
    """Folders of a BERT classifier and of a Llama language model, both random."""
    tiny_classifier("bert").transformer.save_pretrained(tmp_path / "bert")
    torch.manual_seed(0)
    config: dict[str, Any] = {**TINY_CONFIGS["llama"]}
    AutoModelForCausalLM.from_config(AutoConfig.for_model(**config)).save_pretrained(tmp_path / "llama")
    return tmp_path


def adapted(bases, kind: str, **options) -> HuggingFaceClassifier:
    lora = LORA | options
    if kind == "bert":
        return HFClassifier(str(bases / "bert"), num_classes=3, lora=lora)
    return VerbalizerLM(str(bases / "llama"), num_classes=3, verbalizers=[7, 9, 11], lora=lora)


def class_name(method: AttributionMethod) -> str:
    return type(method).__name__


def trained(network: HuggingFaceClassifier) -> HuggingFaceClassifier:
    """Changes everything that is trained."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.requires_grad:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return network.eval()


@needs_peft
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_only_adapters_and_head_are_trained_and_stored(bases, kind):
    network = adapted(bases, kind)
    head = {id(parameter) for parameter in network.head_parameters()}
    names = {name for name, p in network.named_parameters() if p.requires_grad}
    assert names and all(
        "lora_" in name for name, p in network.named_parameters() if p.requires_grad and id(p) not in head
    )
    assert names <= set(network.state_dict()) and not network.base_names & set(network.state_dict())
    before = copy.deepcopy(dict(network.named_parameters()))
    network.train()(text_inputs([9, 5])).logits.sum().backward()
    assert all((p.grad is not None) == (name in names) for name, p in network.named_parameters())
    assert all(torch.equal(before[name], p) for name, p in network.named_parameters())


@pytest.mark.slow
@needs_peft
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_a_checkpoint_gives_the_merged_network(bases, kind):
    network, inputs = trained(adapted(bases, kind)), text_inputs([9, 5])
    path = save_teacher(network, bases / f"{kind}.ckpt")
    stored = torch.load(path, weights_only=True)
    base = adapted(bases, kind)
    assert stored["network"]["init_args"]["path"] == str(bases / kind)
    assert stored["network"]["init_args"]["lora"]["base"] == network.base_hash != ""
    assert sum(v.numel() for v in stored["state_dict"].values()) < sum(p.numel() for p in base.parameters()) / 2
    merged = load_trained(path).network
    torch.testing.assert_close(merged(inputs).logits, network(inputs).logits, rtol=0, atol=1e-5)
    assert (merged(inputs).logits - base.eval()(inputs).logits).abs().max() > 1e-3
    assert not any("lora_" in name for name, _ in merged.named_parameters()) and not merged.base_names
    assert len(merged.encoder_layers()) == 2
    twin = type(merged)(**merged.architecture()).eval()
    twin.load_state_dict(merged.state_dict())
    torch.testing.assert_close(twin(inputs).logits, merged(inputs).logits, rtol=0, atol=1e-6)


@needs_peft
@pytest.mark.parametrize("method", [ALTI(), DecompX(), DecompXReverse(), GlobEnc(), InputXGradient()], ids=class_name)
def test_explanations_include_the_adapters_and_leave_the_network_as_it_was(bases, method):
    network, inputs = adapted(bases, "bert", targets=["query", "value", "dense"]).double(), text_inputs([9, 5])
    network.set_attention("eager")
    for _ in range(2):  # the second time, the adapters have changed
        merged = copy.deepcopy(trained(network))
        merge_adapters(merged)
        names, before = [name for name, _ in network.named_modules()], copy.deepcopy(network.state_dict())
        targets = torch.tensor([[0, 2], [1, 1]])
        given, expected = (method.attribute(model, inputs, targets).scores for model in (network, merged))
        torch.testing.assert_close(given, expected, rtol=1e-5, atol=1e-6)
        assert [name for name, _ in network.named_modules()] == names
        assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
        assert all(weight.requires_grad for name, weight in network.named_parameters() if "lora_" in name)


@pytest.mark.slow
@needs_peft
@pytest.mark.parametrize("fused", [False, True])
def test_a_prompt_is_run_again_when_the_adapters_have_changed(bases, fused):
    network = adapted(bases, "llama", targets=["v_proj", "down_proj"]).double()
    trained_weights = [weight for weight in network.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained_weights, lr=0.2, fused=fused)
    for _ in range(3):
        with torch.no_grad():
            network.eval()(TEXTS)  # stores results for the prompt
        network.train()(TEXTS).logits[:, 0].sum().backward()
        optimizer.step()  # if fused, it changes weights without raising their version
        merged = copy.deepcopy(network.eval())
        merge_adapters(merged)
        targets = torch.zeros(len(TEXTS), 1, dtype=torch.long)
        given, expected = (Occlusion().attribute(model, TEXTS, targets).scores for model in (network, merged))
        torch.testing.assert_close(given, expected, rtol=1e-5, atol=1e-6)
        with torch.no_grad():
            torch.testing.assert_close(network(TEXTS).logits, merged(TEXTS).logits, rtol=1e-6, atol=1e-8)


@needs_peft
def test_an_error_while_adapters_are_merged_leaves_the_network_as_it_was(bases, monkeypatch):
    network = trained(adapted(bases, "bert"))
    names = [name for name, _ in network.named_modules()]
    last = [part for part in network.modules() if hasattr(part, "get_delta_weight")][-1]

    def fail(adapter: str) -> torch.Tensor:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(last, "get_delta_weight", fail)
    with pytest.raises(torch.OutOfMemoryError):
        InputXGradient().attribute(network, text_inputs([9, 5]), torch.tensor([[0], [1]]))
    assert [name for name, _ in network.named_modules()] == names


@needs_peft
def test_decompositions_in_a_loss_are_refused(bases):
    network = trained(adapted(bases, "bert"))
    with pytest.raises(ValueError, match="have LoRA adapters, .*: leave out lora"):
        ALTI().scores(network, text_inputs([9, 5]), torch.tensor([[0], [1]]))


@needs_peft
def test_a_resumed_training_takes_the_adapters_and_keeps_the_base(bases):
    first, second = Supervised(trained(adapted(bases, "bert"))), Supervised(adapted(bases, "bert"))
    second.load_state_dict(first.state_dict())
    inputs = text_inputs([9, 5])
    torch.testing.assert_close(second.eval().network(inputs).logits, first.network(inputs).logits, rtol=0, atol=1e-6)


@needs_peft
def test_another_base_is_refused_with_both_hashes(bases):
    network = adapted(bases, "bert")
    path = save_teacher(network, bases / "bert.ckpt")
    tiny_classifier("bert", seed=7).transformer.save_pretrained(bases / "bert")
    with pytest.raises(
        ValueError, match=rf"have the hash \w+, but the adapters were .* with the hash {network.base_hash}"
    ):
        load_trained(path)


@needs_peft
def test_layers_that_do_not_exist_are_refused(bases):
    with pytest.raises(ValueError, match="lora does not fit the network .*: change targets"):
        adapted(bases, "bert", targets=["no_such_layer"])


def test_merging_a_network_without_adapters_changes_nothing():
    network = tiny_classifier("bert")
    before = copy.deepcopy(network.state_dict())
    merge_adapters(network)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({"rnak": 2}, {}, "unknown option 'rnak'"),
        ({"rank": 0}, {}, "rank 0 and dropout 0.0"),
        ({"dropout": 1.0}, {}, "rank 8 and dropout 1.0"),
        ({}, {"pretrained": False}, "the network's weights are random: set"),
        ({}, {"path": None, "config": TINY_CONFIGS["bert"]}, "the network's weights are random: set"),
    ],
)
def test_wrong_options_are_refused(bases, options, arguments, message):
    with pytest.raises(ValueError, match=message):
        HFClassifier(**({"path": str(bases / "bert"), "num_classes": 3, "lora": options} | arguments))


def test_without_peft_the_extra_is_named(bases, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "peft" else find_spec(name))
    with pytest.raises(ValueError, match=r"lora needs the package peft: pip install 'lightning_xai\[lora\]'"):
        HFClassifier(str(bases / "bert"), num_classes=3, lora={})
