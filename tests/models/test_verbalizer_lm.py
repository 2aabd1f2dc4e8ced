"""A language model with verbalizers: its logits, the shared prompt, and what is refused."""

import copy
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from transformers import AutoModelForCausalLM

from lightning_xai.attributions.alti import ALTI
from lightning_xai.attributions.base import explaining
from lightning_xai.attributions.decompx_reverse import DecompXReverse
from lightning_xai.attributions.deep_lift import DeepLift
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.occlusion import Occlusion
from lightning_xai.functional.erasure.erase import erase
from lightning_xai.functional.gradients.path_gradients import path_ends
from lightning_xai.models import laws
from lightning_xai.models.tiny import with_large_weights
from lightning_xai.models.verbalizer_lm import VerbalizerLM
from lightning_xai.types import TextInputs
from tests.conftest import TINY_CONFIGS

GPT2 = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 100, "n_positions": 64}
MISTRAL = {**TINY_CONFIGS["llama"], "model_type": "mistral", "sliding_window": 5}
UNTIED = {**TINY_CONFIGS["llama"], "tie_word_embeddings": False}
TIED = {**TINY_CONFIGS["llama"], "tie_word_embeddings": True}
CONFIGS = {"tied": TIED, "untied": UNTIED, "gpt2": GPT2, "sliding window": MISTRAL}
HEAD, TAIL = [1, 50, 51, 52, 53, 54, 55], [60, 61]


def network(config: dict[str, Any] = TIED, **arguments: Any) -> VerbalizerLM:
    made = with_large_weights(lambda: VerbalizerLM(config=config, num_classes=3, verbalizers=[7, 9, 11], **arguments))
    return made.double()


def prompted(texts: list[list[int]]) -> TextInputs:
    """Returns the texts with a prompt around them."""
    inputs = TextInputs.of_ids([[*HEAD, *text, *TAIL] for text in texts], fill_id=3)
    columns = torch.arange(inputs.input_ids.shape[1])
    ends = len(HEAD) + torch.tensor([[len(text)] for text in texts])
    text = (columns >= len(HEAD)) & (columns < ends)
    return replace(
        inputs, token_mask=text, baseline_ids=inputs.input_ids.masked_fill(text, 3),
        prompt_mask=inputs.attention_mask & ~text & (columns > 0),
        special_tokens_mask=(columns == 0) | ~inputs.attention_mask,
    )  # fmt: skip


TEXTS = prompted([[20, 21, 22, 23], [30, 31], [40, 41, 42]])


def first_layer(model: VerbalizerLM) -> Any:
    layers: Any = model.transformer.layers
    return layers[0]


def text_gradients(model: VerbalizerLM, inputs: TextInputs, embeds: torch.Tensor) -> torch.Tensor:
    embeds = embeds.detach().requires_grad_()
    with explaining(model, "cpu"):
        (gradient,) = torch.autograd.grad(model(inputs, embeds).logits[:, 1].sum(), embeds)
    return gradient * inputs.token_mask.unsqueeze(-1)


# networks here are float64, but the eager attention of transformers takes its softmax in float32
ROUNDING = {"sdpa": 1e-10, "eager": 1e-6}


@pytest.mark.parametrize("kernel", ROUNDING)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_the_shared_prompt_changes_neither_logits_nor_text_gradients(config, kernel):
    on, off = network(config), network(config, prompt_cache=False)
    for model in (on, off):
        model.set_attention(kernel)
    with torch.no_grad():
        torch.testing.assert_close(on(TEXTS).logits, off(TEXTS).logits, rtol=0, atol=ROUNDING[kernel])
        assert not on._cache.is_empty and off._cache.is_empty
        order = [torch.cat([(~m).nonzero().flatten(), m.nonzero().flatten()]) for m in TEXTS.attention_mask]
        left = TEXTS.map(lambda t: torch.stack([row[o] for row, o in zip(t, order, strict=True)]) if t.dim() > 1 else t)
        torch.testing.assert_close(on(left).logits, off(TEXTS).logits, rtol=0, atol=ROUNDING[kernel])
    for embeds in (on.embed(TEXTS), 0.5 * (on.embed(TEXTS) + path_ends(on, TEXTS, "zero").start)):
        ours, expected = text_gradients(on, TEXTS, embeds), text_gradients(off, TEXTS, embeds)
        torch.testing.assert_close(ours, expected, rtol=0, atol=ROUNDING[kernel])
        assert expected.abs().max() > 1e-3


def test_one_text_alone_and_an_empty_text_use_the_same_prompt():
    model, off = network(), network(prompt_cache=False)
    empty = prompted([[]])
    with torch.no_grad():
        for inputs in (TEXTS[:1].trim(), TEXTS, empty, TEXTS[1:2].trim(), prompted([[], [20]])):
            torch.testing.assert_close(model(inputs).logits, off(inputs).logits, rtol=0, atol=1e-10)
        entry = model._cache._entry
        assert entry is not None and len(entry.ids) == len(HEAD)


def test_a_pass_computes_only_the_columns_after_the_prompt(monkeypatch):
    model, lengths = network(), []
    norm: Any = model.transformer.norm
    forward = norm.forward

    def counted(states):
        lengths.append(states.shape[1])
        return forward(states)

    monkeypatch.setattr(norm, "forward", counted)
    with torch.no_grad():
        model(TEXTS)
        model(TEXTS[:2])
    DeepLift().attribute(model, TEXTS, torch.zeros(3, 1, dtype=torch.long))  # one call for the texts and the baselines
    assert lengths == [len(HEAD), 6, 6, 6]


def test_hooks_of_methods_see_the_whole_prompt():
    model, lengths = network(), []
    with torch.no_grad():
        model(TEXTS)
        handle = first_layer(model).register_forward_hook(lambda _m, _a, out: lengths.append(out.shape[1]))
        model(TEXTS)
    handle.remove()
    assert lengths == [TEXTS.input_ids.shape[1]]


@pytest.mark.parametrize("method", [DeepLift(), DecompXReverse(), ALTI(), Occlusion()], ids=lambda m: type(m).__name__)
def test_methods_leave_the_shared_prompt_as_it_is(method):
    model, off = network(UNTIED), network(UNTIED, prompt_cache=False)
    targets = torch.tensor([[0, 1]] * 3)
    kernel: Literal["eager", "sdpa"] = "eager" if method.needs_attentions else "sdpa"
    for each in (model, off):
        each.set_attention(kernel)
    ours, expected = (method.attribute(each, TEXTS, targets).scores for each in (model, off))
    text = TEXTS.token_mask.unsqueeze(1).expand_as(ours)
    torch.testing.assert_close(ours[text], expected[text], rtol=0, atol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(model(TEXTS).logits, off(TEXTS).logits, rtol=0, atol=ROUNDING[kernel])


def test_other_embeddings_of_the_prompt_pass_with_the_text():
    model, off = network(), network(prompt_cache=False)
    noisy = model.embed(TEXTS) + 0.1
    with torch.no_grad():
        torch.testing.assert_close(model(TEXTS, noisy).logits, off(TEXTS, noisy).logits, rtol=0, atol=1e-10)
    assert model._cache.is_empty


@pytest.mark.parametrize("change", ["weights", "loaded", "dtype", "kernel"])
def test_keys_and_values_are_dropped_when_the_network_changes(change):
    model = network()
    with torch.no_grad():
        model(TEXTS)
        if change == "weights":
            first_layer(model).self_attn.k_proj.weight.mul_(1.5)
        elif change == "loaded":
            model.load_state_dict({name: 1.1 * value for name, value in model.state_dict().items()})
        elif change == "dtype":
            model.float()
        else:
            model.set_attention("eager")
        ours, model.prompt_cache = model(TEXTS).logits, False
        torch.testing.assert_close(ours, model(TEXTS).logits, rtol=1e-5, atol=1e-5)


def test_the_prompt_is_not_shared_where_that_would_be_wrong():
    model = network()
    assert model(TEXTS).logits.requires_grad and model._cache.is_empty  # weights may want gradients
    with torch.no_grad():
        model(TEXTS, output_hidden_states=True)
        model.train()(TEXTS)
        assert model._cache.is_empty
        model.eval()(replace(TEXTS, prompt_mask=None))
        assert model._cache.is_empty
        model(TEXTS)
    assert not model._cache.is_empty and copy.deepcopy(model)._cache.is_empty


def test_results_of_inference_mode_serve_later_gradients():
    model = network()
    with torch.inference_mode():
        model(TEXTS.map(torch.clone))
    assert text_gradients(model, TEXTS, model.embed(TEXTS)).isfinite().all()


def test_deletion_moves_the_text_and_never_the_prompt():
    model = network()
    keep = torch.ones_like(TEXTS.token_mask)
    keep[:, len(HEAD) + 1] = False
    deleted, _ = erase(TEXTS, keep, "delete")
    shorter = prompted([[20, 22, 23], [30], [40, 42]])
    assert torch.equal(deleted.trim().input_ids, shorter.input_ids)
    moved = deleted.trim().prompt_mask
    assert moved is not None and shorter.prompt_mask is not None and torch.equal(moved, shorter.prompt_mask)
    positions = model.network_inputs(deleted)["position_ids"]
    assert positions[:, : len(HEAD)].tolist() == [list(range(len(HEAD)))] * 3
    with torch.no_grad():
        torch.testing.assert_close(model(deleted).logits, model(shorter).logits, rtol=0, atol=1e-10)
        holes = replace(TEXTS, attention_mask=TEXTS.attention_mask & (keep | ~TEXTS.token_mask))
        torch.testing.assert_close(model(holes).logits, model(shorter).logits, rtol=0, atol=1e-10)


def test_zero_baselines_leave_the_prompt():
    model = network()
    targets = torch.tensor([[0, 1]] * 3)
    start, end = path_ends(model, TEXTS, "zero")
    assert torch.equal(start[TEXTS.prompt_mask], end[TEXTS.prompt_mask]) and not start[TEXTS.token_mask].any()
    method = IntegratedGradients(baseline="zero", num_steps=8, delta_tolerance=9.0)
    scores = method.attribute(model, TEXTS, targets).scores
    assert TEXTS.prompt_mask is not None
    assert not scores[TEXTS.prompt_mask.unsqueeze(1).expand_as(scores)].any()
    assert scores[TEXTS.token_mask.unsqueeze(1).expand_as(scores)].all()


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_logits_are_those_of_the_language_model(config):
    model = network(config)
    language_model = AutoModelForCausalLM.from_config(model.transformer.config).double().eval()
    language_model.base_model.load_state_dict(model.transformer.state_dict())
    if model.output is not None:
        language_model.get_output_embeddings().load_state_dict(model.output.state_dict())
    row = TEXTS[:1].trim()
    expected = language_model(row.input_ids, attention_mask=row.attention_mask.long()).logits[:, -1]
    torch.testing.assert_close(model(row).logits, expected[:, [7, 9, 11]], rtol=0, atol=1e-10)
    mass = expected.softmax(dim=-1)[:, [7, 9, 11]].sum(dim=-1)
    torch.testing.assert_close(model.verbalizer_mass(row).double(), mass, rtol=0, atol=1e-6)


@pytest.mark.parametrize("law", [law for law in laws.LAWS if "kernel" not in law.__name__], ids=lambda l: l.__name__)
def test_a_llama_keeps_the_law(law):
    law(network())


def test_the_kernels_of_a_llama_agree_to_the_float32_of_its_softmax():
    model = network()
    fast = model(TEXTS).logits
    model.set_attention("eager")
    torch.testing.assert_close(model(TEXTS).logits, fast, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"verbalizers": None}, "has no verbalizers: use a PromptEncoder"),
        ({"verbalizers": [7, 9]}, "2 verbalizers for 3 classes"),
        ({"verbalizers": [7, 9, 7]}, "verbalizer 7 stands for two classes"),
        ({"verbalizers": [7, 9, 100]}, "verbalizer 100 is not an id of the vocabulary"),
        ({"config": {"model_type": "distilbert"}}, "distilbert is not a causal language model"),
    ],
)
def test_wrong_verbalizers_and_networks_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        VerbalizerLM(**({"config": TIED, "num_classes": 3, "verbalizers": [7, 9, 11]} | arguments))
    assert "\n" not in str(caught.value)


def test_a_text_that_is_too_long_with_its_prompt_is_refused():
    with pytest.raises(ValueError, match="an example has 65 tokens with its prompt, but gpt2 has 64 positions"):
        network(GPT2).check_length(65, "an example")


@pytest.mark.parametrize("attentions", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_the_prompt_is_run_again_after_a_training_step(fused, attentions):
    model = network()
    model.set_attention("eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
    with torch.no_grad():
        model.eval()(TEXTS)  # stores results for the prompt
    model.train()(TEXTS, output_attentions=attentions).logits[:, 0].sum().backward()
    optimizer.step()  # a fused step does not raise the version of the weights
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(TEXTS).logits, copy.deepcopy(model)(TEXTS).logits, rtol=1e-9, atol=1e-9)
