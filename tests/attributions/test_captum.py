"""Captum's algorithms as methods: each equals captum called by hand, and keeps the contracts of all methods."""

import math
from dataclasses import replace
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch

from lightning_xai.attributions.captum import Captum
from lightning_xai.attributions.captum_algorithms import ALGORITHMS, REFUSED, call_defaults
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.functional.gradients.path_gradients import path_ends
from tests.conftest import text_inputs, tiny_classifier

SMALL = {"n_steps": 5, "n_samples": 8, "nt_samples": 3}
TARGETS = torch.tensor([[0, 2], [1, 0], [2, 1]])
each_algorithm = pytest.mark.parametrize("name", ALGORITHMS)
each_model = pytest.mark.parametrize("kind", ["bert", "plm_ca"])


def build(name, **arguments):
    options = {key: value for key, value in SMALL.items() if key in call_defaults(name)}
    arguments |= {"wrapped": "InputXGradient"} if name == "NoiseTunnel" else {}
    return Captum(name, options, delta_tolerance=None, **arguments)


def inputs(name):
    return text_inputs([4, 6, 5] if name == "ShapleyValues" else [6, 13, 9])


def test_every_name_of_captum_is_called_or_refused():
    assert sorted([*ALGORITHMS, *REFUSED]) == sorted(captum.attr.__all__)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_why(name):
    with pytest.raises(ValueError, match=f"algorithm is '{name}': it|algorithm is '{name}': captum's"):
        Captum(name)


def by_hand(name, model, text, target, seed):
    """Returns the scores [T] of one text without padding, by captum alone."""
    kind = getattr(captum.attr, name)
    options: dict[str, Any] = {key: value for key, value in SMALL.items() if key in call_defaults(name)}
    start, end = (embeds.detach() for embeds in path_ends(model, text, "fill"))
    end.requires_grad_()
    columns = text.token_mask[0].nonzero().flatten()

    def of_embeds(embeds):
        return model(text[[0] * len(embeds)], identity(embeds)).logits

    def of_turned_embeds(embeds):
        return model(text[[0] * len(embeds)], identity(embeds.transpose(1, 2)).transpose(1, 2)).logits

    def of_ids(ids):
        rows = text[[0] * len(ids)]
        whole = rows.input_ids.clone()
        whole[:, columns] = ids
        return model(replace(rows, input_ids=whole)).logits.detach()

    identity = torch.nn.Identity()
    torch.manual_seed(seed)
    np.random.seed(seed)
    if ALGORITHMS[name].features == "tokens":
        if name == "Occlusion":
            options["sliding_window_shapes"] = (1,)
        ids, baselines = text.input_ids[:, columns], text.baseline_ids[:, columns]
        scores = torch.zeros(text.input_ids.shape[1])
        scores[columns] = kind(of_ids).attribute(ids, baselines=baselines, target=target, **options).float()[0]
        return scores
    if name == "NoiseTunnel":
        algorithm = kind(captum.attr.InputXGradient(of_embeds))
        return algorithm.attribute(end, target=target, **options).sum(-1)[0]
    if name == "LayerGradCam":
        return kind(of_turned_embeds, identity).attribute(end, target=target)[0, 0]
    if name == "LayerActivation":
        return kind(of_embeds, identity).attribute(end).sum(-1)[0]
    algorithm = kind(of_embeds, identity) if name.startswith(("Layer", "Internal")) else kind(of_embeds)
    if name == "LayerFeatureAblation":
        places = torch.zeros(text.input_ids.shape[1], dtype=torch.long)
        places[columns] = torch.arange(1, len(columns) + 1)
        mask = places.unsqueeze(-1).expand(1, *end.shape[1:])
        return algorithm.attribute(end, layer_baselines=start, layer_mask=mask, target=target)[0, :, 0]
    if name == "Saliency":
        options["abs"] = False
    elif name not in ("InputXGradient", "LayerGradientXActivation"):
        options["baselines"] = start
    return algorithm.attribute(end, target=target, **options).sum(-1)[0]


@each_model
@each_algorithm
@pytest.mark.slow
def test_scores_are_those_of_captum_called_by_hand(name, kind, monkeypatch):
    model, texts = tiny_classifier(kind), inputs(name)[:2]  # the first is padded
    seeds: list[int] = []
    manual_seed = torch.manual_seed

    def remember(seed):
        seeds.append(seed)
        return manual_seed(seed)

    monkeypatch.setattr(torch, "manual_seed", remember)
    scores = build(name).attribute(model, texts, TARGETS[:2]).scores
    monkeypatch.undo()
    drawn = iter(seeds or [0] * 4)
    for row in range(2):
        text = texts[[row]].trim()
        for column in range(2):
            expected = by_hand(name, model, text, int(TARGETS[row, column]), next(drawn))
            torch.testing.assert_close(scores[row, column, : len(expected)], expected.detach(), rtol=1e-4, atol=1e-5)


@each_model
@each_algorithm
def test_passes_are_counted_as_captum_makes_them(name, kind):
    check_passes(name, build(name), kind)


def test_the_states_of_the_baseline_cost_one_pass():
    check_passes(
        "LayerFeatureAblation", build("LayerFeatureAblation", layer="transformer.bert.encoder.layer.0"), "bert"
    )


def check_passes(name, method, kind):
    made = {"forward": 0, "backward": 0}

    def count(module, arguments, output):
        made["forward"] += len(output.logits)
        if output.logits.requires_grad:
            output.logits.register_hook(lambda gradient: made.update(backward=made["backward"] + len(gradient)))

    model = tiny_classifier(kind)
    model.register_forward_hook(count)
    length = 5 if name == "ShapleyValues" else 9
    method.attribute(model, text_inputs([length] * 2), TARGETS[:2])
    stated = method.passes(length - 2, 2)
    assert made == {"forward": 2 * stated.forward, "backward": 2 * stated.backward}


@each_algorithm
def test_neither_padding_nor_the_batch_changes_a_score(name):
    model, texts, method = tiny_classifier("bert"), inputs(name), build(name)
    lengths = texts.attention_mask.sum(dim=1).tolist()
    padded = method.attribute(model, text_inputs(lengths, pad_to=15), TARGETS).scores
    for row, length in enumerate(lengths):
        alone = method.attribute(model, texts[[row]].trim(), TARGETS[[row]]).scores[0]
        torch.testing.assert_close(padded[row, :, :length], alone, rtol=1e-4, atol=1e-5)
        assert not padded[row, :, length:].any()


@each_algorithm
def test_global_random_states_and_the_model_are_left_alone(name):
    model = tiny_classifier("bert").train()
    torch_state, numpy_state = torch.get_rng_state(), str(np.random.get_state())
    hooks = sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())
    build(name).attribute(model, inputs(name)[:1], TARGETS[:1])
    assert torch.equal(torch_state, torch.get_rng_state()) and numpy_state == str(np.random.get_state())
    assert hooks == sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())
    assert model.training and all(parameter.grad is None for parameter in model.parameters())


def test_another_seed_draws_other_samples():
    model, texts = tiny_classifier("bert"), text_inputs([9])
    first, second = (build("Lime", seed=seed).attribute(model, texts, TARGETS[:1]).scores for seed in (0, 1))
    assert not torch.equal(first, second)


@pytest.mark.slow
def test_algorithms_of_both_packages_agree():
    model, texts = tiny_classifier("bert"), text_inputs([6, 13, 9])
    ours = IntegratedGradients(num_steps=5, pooling="sum").attribute(model, texts, TARGETS).scores
    torch.testing.assert_close(build("IntegratedGradients").attribute(model, texts, TARGETS).scores, ours)
    gradient = Gradient(pooling="l2").attribute(model, texts, TARGETS).scores
    torch.testing.assert_close(build("Saliency", pooling="l2").attribute(model, texts, TARGETS).scores, gradient)
    ablated = [build(name).attribute(model, texts, TARGETS).scores for name in ("FeatureAblation", "Occlusion")]
    torch.testing.assert_close(*ablated)
    layer = build("LayerFeatureAblation").attribute(model, texts, TARGETS).scores
    torch.testing.assert_close(layer, ablated[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["LayerGradientXActivation", "LayerIntegratedGradients", "LayerConductance"])
def test_a_hidden_layer_scores_every_token(name):
    model, texts = tiny_classifier("bert"), text_inputs([20, 13])
    scores = build(name, layer="transformer.bert.encoder.layer.0").attribute(model, texts, TARGETS[:2]).scores
    assert (scores[0] != 0).all() and (scores[1, :, :13] != 0).all() and not scores[1, :, 13:].any()


def test_an_ablated_hidden_state_is_that_of_the_baseline():
    model, texts = tiny_classifier("bert"), text_inputs([6])
    name = "transformer.bert.encoder.layer.0"
    found = build("LayerFeatureAblation", layer=name).attribute(model, texts, TARGETS[:1]).scores[0, 0]
    outputs: list[torch.Tensor] = []

    def keep(module, arguments, output):
        outputs.append(output[0] if isinstance(output, tuple) else output)

    handle = model.get_submodule(name).register_forward_hook(keep)
    whole = model(texts).logits
    model(replace(texts, input_ids=texts.baseline_ids))
    handle.remove()
    states, baseline = outputs
    assert found.abs().max() > 1e-3
    for token in texts.token_mask[0].nonzero().flatten().tolist():
        changed = states.clone()
        changed[:, token] = baseline[:, token]
        handle = model.get_submodule(name).register_forward_hook(
            lambda module, arguments, output, changed=changed: (
                (changed, *output[1:]) if isinstance(output, tuple) else changed
            )
        )
        drop = (whole - model(texts).logits)[0, TARGETS[0, 0]]
        handle.remove()
        assert float(found[token]) == pytest.approx(drop.item(), abs=1e-5)


def test_an_ablated_layer_that_is_never_called_is_refused():
    with pytest.raises(ValueError, match="the network never calls this layer: name another layer"):
        build("LayerFeatureAblation", layer="transformer.bert.encoder.layer").attribute(
            tiny_classifier("bert"), text_inputs([6]), TARGETS[:1]
        )


def test_a_layer_of_segments_is_refused():
    with pytest.raises(ValueError, match=r"shape \[3, 8, 16\] for texts of 20 tokens: .* set layer to null"):
        build("LayerActivation", layer="transformer.encoder.layer.0").attribute(
            tiny_classifier("plm_ca"), text_inputs([20]), TARGETS[:1]
        )


def test_a_layer_that_keeps_no_tokens_is_refused():
    with pytest.raises(ValueError, match="name a layer that returns one state per token"):
        build("LayerActivation", layer="transformer.classifier").attribute(
            tiny_classifier("bert"), text_inputs([9]), TARGETS[:1]
        )
    with pytest.raises(ValueError, match="layer is 'transformer.bart'.*choose among .*transformer.bert"):
        build("LayerActivation", layer="transformer.bart").attribute(
            tiny_classifier("bert"), text_inputs([9]), TARGETS[:1]
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algorithm": "IntegratedGradient"}, "did you mean 'IntegratedGradients'"),
        ({"algorithm": "xyz"}, "choose one of Saliency"),
        (
            {"algorithm": "Lime", "arguments": {"steps": 3}},
            "arguments.steps is not an argument of Lime, which accepts: n_sam",
        ),
        ({"algorithm": "Saliency", "arguments": {"abs": True}}, "arguments.abs is not an argument of Saliency"),
        ({"algorithm": "NoiseTunnel"}, "wrapped is None, but NoiseTunnel needs one of Saliency"),
        ({"algorithm": "Saliency", "wrapped": "Saliency"}, "only NoiseTunnel wraps"),
        ({"algorithm": "Saliency", "layer": "a"}, "Saliency cannot explain a layer here"),
        ({"algorithm": "LayerGradCam", "layer": "a"}, "LayerGradCam cannot explain a layer here"),
        ({"algorithm": "Lime", "seed": -1}, "seed is -1"),
    ],
)
def test_bad_arguments_are_refused_at_construction(arguments, message):
    with pytest.raises(ValueError, match=message):
        Captum(**arguments)


def test_all_orders_of_many_tokens_are_refused():
    with pytest.raises(ValueError, match="a text has 10 tokens, more than the limit of 8: use ShapleyValueSampling"):
        Captum("ShapleyValues").attribute(tiny_classifier("bert"), text_inputs([12]), TARGETS[:1])


def test_a_missed_completeness_warns_once():
    method = Captum("IntegratedGradients", {"n_steps": 1}, delta_tolerance=1e-6)
    with pytest.warns(UserWarning, match="captum's IntegratedGradients violate completeness by .* raise n_steps"):
        method.attribute(tiny_classifier("bert"), text_inputs([9]), TARGETS[:1])


def test_a_text_without_explainable_tokens_scores_zero():
    scores = build("KernelShap").attribute(tiny_classifier("bert"), text_inputs([2]), TARGETS[:1]).scores
    assert not scores.any() and math.prod(build("KernelShap").passes(0, 2)) == 0


def test_algorithms_that_need_scikit_learn_say_so(monkeypatch):
    monkeypatch.setattr("lightning_xai.attributions.captum_algorithms.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="for which captum needs scikit-learn: pip install scikit-learn"):
        Captum("Lime")
