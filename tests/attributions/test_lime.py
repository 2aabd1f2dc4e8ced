from dataclasses import replace

import numpy as np
import pytest
import torch

from lightning_xai.attributions.lime import LIME, coalition_weights
from lightning_xai.functional.erasure.erase import erase
from tests.conftest import text_inputs, tiny_classifier

TARGETS = torch.tensor([[0, 2], [1, 0], [2, 1]])


def logits_of_coalitions(model, inputs, coalitions):
    """Returns the logits of one text [1, T] for coalitions [N, M] of its explainable tokens, one pass each."""
    tokens = inputs.token_mask[0].nonzero().flatten()
    logits = []
    for coalition in coalitions:
        keep = torch.ones_like(inputs.token_mask)
        keep[0, tokens] = coalition
        with torch.no_grad():
            logits.append(model(erase(inputs, keep, "mask")[0]).logits)
    return torch.cat(logits)


def test_scores_are_the_coefficients_of_weighted_least_squares():
    model = tiny_classifier("bert").double()
    inputs, method = text_inputs([9]), LIME(num_samples=30, alpha=0.1)
    scores = method.attribute(model, inputs, TARGETS[:1]).scores
    keep, weights = method.coalitions(7, index=0)
    design = np.concatenate([keep.numpy(), np.ones((30, 1))], axis=1)
    root = np.sqrt(weights.numpy())[:, None]
    penalty = np.sqrt(0.1) * np.eye(7, 8)  # a ridge as further rows, which leave out the intercept
    logits = logits_of_coalitions(model, inputs, keep)[:, TARGETS[0]].numpy()
    left, right = np.concatenate([root * design, penalty]), np.concatenate([root * logits, np.zeros((7, 2))])
    expected = np.linalg.lstsq(left, right, rcond=None)[0][:7].T
    np.testing.assert_allclose(scores[0, :, 1:-1].numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_strong_lasso_keeps_few_tokens(tiny_hf):
    scores = LIME(100, regressor="lasso", alpha=0.01).attribute(tiny_hf, text_inputs([13]), TARGETS[:1]).scores
    assert 0 < int((scores[0, 0] != 0).sum()) < 11


def test_weights_fall_with_the_distance_from_the_text():
    keep = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]]).bool()
    cosine = [1, np.exp(-(0.5**2) / (2 * 0.5**2)), np.exp(-1 / (2 * 0.5**2))]
    assert coalition_weights(keep, "cosine", 0.5).tolist() == pytest.approx(cosine)
    assert coalition_weights(keep, "euclidean", 2.0).tolist() == pytest.approx([1, np.exp(-3 / 8), np.exp(-4 / 8)])


def test_samples_depend_on_the_seed_and_the_example():
    draws = [LIME(20, seed=seed).coalitions(9, index)[0] for seed, index in [(0, 0), (0, 0), (1, 0), (0, 1)]]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2]) and not torch.equal(draws[0], draws[3])


def test_the_number_of_samples_follows_the_text_unless_given():
    assert LIME().passes(100, 1).forward == 300
    assert LIME().passes(6, 1).forward == 32
    assert LIME().passes(1, 1).forward == 2  # a token is either kept or erased
    assert LIME(20).passes(100, 1).forward == 20


def test_texts_without_and_with_one_explainable_token(tiny_hf):
    scores = LIME().attribute(tiny_hf, text_inputs([2, 3]), TARGETS[:2]).scores
    assert not scores[0].any() and scores[1, :, 1].all()


def test_inputs_without_an_index_are_refused(tiny_hf):
    with pytest.raises(ValueError, match="LIME needs it as seed"):
        LIME().attribute(tiny_hf, replace(text_inputs([5]), index=None), TARGETS[:1])


@pytest.mark.parametrize(
    "wrong", [{"num_samples": 0}, {"alpha": 0.0}, {"kernel_width": 0.0}, {"seed": -1}, {"chunk_size": 0}]
)
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LIME(**wrong)
