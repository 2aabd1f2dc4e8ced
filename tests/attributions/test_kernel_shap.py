from itertools import combinations
from math import comb, factorial

import numpy as np
import pytest
import torch

from lightning_xai.attributions.kernel_shap import KernelSHAP, shapley_coalitions, size_shares
from lightning_xai.functional.erasure.perturbation import Versions, logits_of, perturbed_outputs
from tests.conftest import text_inputs, tiny_classifier

TARGETS = torch.tensor([[0, 2], [1, 0], [2, 1]])


def shapley_values(model, inputs, how):
    """Returns the Shapley values [M, C] of the explainable tokens of one text [1, T], by their definition."""
    tokens = inputs.token_mask[0].nonzero().flatten().tolist()
    coalitions = [coalition for size in range(len(tokens) + 1) for coalition in combinations(tokens, size)]
    keep = torch.zeros(len(coalitions), inputs.input_ids.shape[1], dtype=torch.bool)
    for row, coalition in enumerate(coalitions):
        keep[row, list(coalition)] = True
    versions = Versions(torch.zeros(len(keep), dtype=torch.long), keep)
    outputs = perturbed_outputs(logits_of(model), inputs, versions, erasure=how)
    value = dict(zip(coalitions, outputs.numpy(), strict=True))
    scores = []
    for token in tokens:
        score = 0
        for coalition in value:
            if token not in coalition:
                share = factorial(len(coalition)) * factorial(len(tokens) - len(coalition) - 1) / factorial(len(tokens))
                score = score + share * (value[tuple(sorted((*coalition, token)))] - value[coalition])
        scores.append(score)
    return np.stack(scores)


@pytest.mark.parametrize("how", ["mask", "delete"])
@pytest.mark.parametrize("length", [8, 7])
def test_scores_of_all_coalitions_are_the_shapley_values(how, length):
    model = tiny_classifier("bert").double()
    inputs = text_inputs([length])
    units = length - 2
    method = KernelSHAP(num_samples=2**units - 2, erasure=how)
    actual = method.scores(model, inputs, TARGETS[:1])[0, :, 1:-1]
    expected = shapley_values(model, inputs, how)[:, TARGETS[0]].T
    np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("num_samples", [1, 12, 40, 1000])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_scores_sum_to_the_difference_between_the_text_and_the_empty_text(num_samples, unit):
    model = tiny_classifier("bert").double()
    inputs = text_inputs([6, 13, 9])
    scores = KernelSHAP(num_samples, unit).scores(model, inputs, TARGETS)
    keep = torch.stack([torch.ones_like(inputs.token_mask), torch.zeros_like(inputs.token_mask)], dim=1).flatten(0, 1)
    versions = Versions(torch.arange(3).repeat_interleave(2), keep)
    ends = perturbed_outputs(logits_of(model), inputs, versions, erasure="mask")
    differences = (ends[0::2] - ends[1::2]).gather(1, TARGETS)
    torch.testing.assert_close(scores.sum(dim=2), differences, rtol=0, atol=1e-12)


def test_more_samples_come_closer_to_the_shapley_values():
    model = tiny_classifier("bert").double()
    inputs = text_inputs([12])
    exact, many, few = (KernelSHAP(n).scores(model, inputs, TARGETS[:1]) for n in (1022, 400, 40))
    assert (many - exact).norm() < 0.5 * (few - exact).norm() < 0.25 * exact.norm()


@pytest.mark.parametrize("num_units", [2, 3, 6, 7])
def test_all_coalitions_are_enumerated_once_with_the_weight_of_the_shapley_kernel(num_units):
    keep, weights = shapley_coalitions(num_units, 2**num_units - 2, np.random.default_rng(0))
    assert len(keep) == len(keep.unique(dim=0)) == 2**num_units - 2
    sizes = keep.sum(dim=1).tolist()
    assert 0 < min(sizes) and max(sizes) < num_units
    kernel = np.array([(num_units - 1) / (comb(num_units, s) * s * (num_units - s)) for s in sizes])
    np.testing.assert_allclose(weights, kernel / kernel.sum(), rtol=1e-12)


def test_samples_too_few_for_a_size_are_pairs_of_complements():
    keep, weights = shapley_coalitions(8, 30, np.random.default_rng(0))
    # sizes 1 and 7 get 0.44 of the kernel, 13.2 of 30 samples: fewer than their 16 coalitions, so none is enumerated
    assert len(keep) == 30 and torch.equal(keep[0::2], ~keep[1::2])
    assert weights.tolist() == pytest.approx([1 / 30] * 30)


def test_the_outer_sizes_are_enumerated_and_the_others_drawn():
    keep, weights = shapley_coalitions(8, 60, np.random.default_rng(0))
    ends = (keep.sum(dim=1) == 1) | (keep.sum(dim=1) == 7)
    assert ends[:16].all() and not ends[16:].any() and len(keep) == 60
    assert len(keep[:16].unique(dim=0)) == 16
    share = size_shares(8)[0]
    assert weights[:16].sum() == pytest.approx(share) and weights.sum() == pytest.approx(1)


def test_texts_without_and_with_one_explainable_token():
    model = tiny_classifier("bert").double()
    inputs = text_inputs([2, 3])
    scores = KernelSHAP().scores(model, inputs, TARGETS[:2])
    assert not scores[0].any()
    expected = shapley_values(model, inputs[1:], "mask")[0, TARGETS[1]]
    assert scores[1, :, 1].tolist() == pytest.approx(expected.tolist())


def test_the_number_of_coalitions_follows_the_text_unless_given():
    assert KernelSHAP().passes(100, 1).forward == 2 + 300
    assert KernelSHAP(20).passes(100, 1).forward == 2 + 20
    assert KernelSHAP().passes(3, 1).forward == 8
    assert KernelSHAP().passes(0, 1).forward == 0


@pytest.mark.parametrize("wrong", [{"num_samples": 0}, {"seed": -1}])
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        KernelSHAP(**wrong)
