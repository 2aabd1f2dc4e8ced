from dataclasses import replace

import numpy as np
import pytest
import torch

from lightning_xai.attributions.gradient_shap import GradientSHAP, expected_gradients, random_points
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.functional.gradients.path_gradients import PathEnds, path_ends
from tests.conftest import text_inputs, tiny_classifier

TARGETS = torch.tensor([[0, 2], [1, 1]])


@pytest.fixture
def inputs():
    return text_inputs([6, 9])


@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
@pytest.mark.parametrize("noise_std", [0.0, 0.3])
def test_products_are_those_of_captum_at_the_points_that_captum_draws(kind, noise_std, inputs):
    import captum.attr

    model, inputs = tiny_classifier(kind).double(), inputs[1:]
    start, end = (embeds.detach() for embeds in path_ends(model, inputs, "fill"))
    embeds_of_captum = []

    def forward(embeds):
        embeds_of_captum.append(embeds.detach())
        return model(inputs.repeat_interleave(len(embeds)), embeds).logits

    np.random.seed(0)
    torch.manual_seed(0)
    explainer = captum.attr.GradientShap(forward)
    expected = explainer.attribute(end, start, n_samples=4, stdevs=noise_std, target=1)
    torch.manual_seed(0)
    noise = torch.normal(0.0, torch.full((4, *end.shape[1:]), noise_std)).double() if noise_std else 0 * end
    line = end + noise - start
    points = ((embeds_of_captum[0] - start) * line).sum(dim=(1, 2)) / line.square().sum(dim=(1, 2))
    points, noise = points.view(1, 4, 1, 1), noise.expand(4, *end.shape[1:]).unsqueeze(0)
    (actual,) = expected_gradients(
        model,
        inputs,
        torch.tensor([[1]]),
        PathEnds(start, end),
        lambda samples: (points[:, samples], noise[:, samples]),
        num_samples=4,
        chunk_size=3,
    )
    torch.testing.assert_close(actual, expected)


@pytest.mark.slow
@pytest.mark.parametrize("baseline", ["fill", "zero"])
def test_many_samples_are_integrated_gradients(tiny_hf, inputs, baseline):
    model = tiny_hf.double()
    expected = IntegratedGradients(pooling="sum", baseline=baseline).scores(model, inputs, TARGETS)
    runs = [GradientSHAP(100, baseline=baseline, seed=seed).scores(model, inputs, TARGETS) for seed in range(8)]
    mean, error = torch.stack(runs).mean(dim=0), torch.stack(runs).std(dim=0) / 8**0.5
    assert ((mean - expected).abs() <= 5 * error + 1e-9).all()


@pytest.mark.slow
def test_sums_are_the_difference_of_the_logits_on_average(tiny_plm_ca, inputs):
    model = tiny_plm_ca.double()
    start, end = path_ends(model, inputs, "fill")
    difference = (model(inputs, end).logits - model(inputs, start).logits).gather(1, TARGETS)
    sums = torch.stack([GradientSHAP(100, seed=seed).scores(model, inputs, TARGETS).sum(dim=-1) for seed in range(8)])
    assert ((sums.mean(dim=0) - difference).abs() <= 5 * sums.std(dim=0) / 8**0.5 + 1e-9).all()


def test_noise_moves_special_tokens_too(tiny_hf, inputs):
    without_noise, with_noise = (
        GradientSHAP(4, noise_std=s).attribute(tiny_hf, inputs, TARGETS).scores for s in (0.0, 0.1)
    )
    assert not without_noise[0, 0, 0] and with_noise[0, 0, 0]


def test_scores_with_noise_are_the_same_alone_and_in_a_batch(tiny_hf, inputs):
    method = GradientSHAP(4, noise_std=0.5)
    together = method.attribute(tiny_hf, inputs, TARGETS).scores
    alone = method.attribute(tiny_hf, inputs[:1].trim(), TARGETS[:1]).scores
    torch.testing.assert_close(together[:1, :, :6], alone, rtol=1e-4, atol=1e-5)


def test_chunk_size_changes_no_score_with_noise(tiny_hf, inputs):
    one_at_a_time, all_at_once = (
        GradientSHAP(5, noise_std=0.5, chunk_size=size).scores(tiny_hf.double(), inputs, TARGETS) for size in (1, None)
    )
    torch.testing.assert_close(one_at_a_time, all_at_once)


def test_noise_has_the_given_deviation_and_is_zero_at_padding():
    inputs = text_inputs([6, 40])
    points, noise = random_points(inputs, range(200), num_values=16, noise_std=0.5, seed=0)
    assert noise[1].std().item() == pytest.approx(0.5, rel=0.01) and noise.mean().abs() < 0.01
    assert not noise[0, :, 6:].any()
    assert points.min() >= 0 and points.max() <= 1 and points.std().item() == pytest.approx(12**-0.5, rel=0.1)


def test_without_noise_no_copies_of_the_line_are_held(inputs):
    points, noise = random_points(inputs, range(3), num_values=16, noise_std=0.0, seed=0)
    assert points.shape == (2, 3, 1, 1) and noise.shape == (2, 1, 1, 1) and not noise.any()


@pytest.mark.parametrize("change", [{"seed": 1}, {"index": 5}])
def test_another_seed_or_example_draws_other_points(inputs, change):
    first, _ = random_points(inputs, range(3), num_values=2, noise_std=0.0, seed=0)
    shifted = replace(inputs, index=inputs.index + change.get("index", 0))
    second, _ = random_points(shifted, range(3), num_values=2, noise_std=0.0, seed=change.get("seed", 0))
    assert (first != second).all()


def test_inputs_without_an_index_are_refused(tiny_hf, inputs):
    with pytest.raises(ValueError, match="inputs.index is None"):
        GradientSHAP(2).attribute(tiny_hf, replace(inputs, index=None), TARGETS)


@pytest.mark.parametrize(
    "arguments",
    [{"num_samples": 0}, {"noise_std": -1.0}, {"seed": -1}, {"chunk_size": 0}, {"pooling": "x"}, {"baseline": "x"}],
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match="is"):
        GradientSHAP(**arguments)
