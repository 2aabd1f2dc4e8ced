import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso, Ridge

from lightning_xai.attributions.surrogates import additive_fit, lasso, ridge


def problem(num_units=7, num_samples=40, num_outputs=3, batch=2):
    generator = torch.Generator().manual_seed(0)
    design = torch.rand(batch, num_samples, num_units, generator=generator) < 0.5
    outputs = torch.randn(batch, num_samples, num_outputs, generator=generator, dtype=torch.float64)
    outputs += design.double() @ torch.randn(num_units, num_outputs, generator=generator, dtype=torch.float64)
    weights = torch.rand(batch, num_samples, generator=generator, dtype=torch.float64)
    return design, outputs, weights


@pytest.mark.parametrize(
    "fit, peer, alpha", [(ridge, Ridge, 0.01), (ridge, Ridge, 3.0), (lasso, Lasso, 0.01), (lasso, Lasso, 0.3)]
)
def test_coefficients_are_those_of_scikit_learn(fit, peer, alpha):
    design, outputs, weights = problem()
    actual = fit(design, outputs, weights, alpha=alpha)
    for b in range(2):
        for k in range(3):
            options = {"tol": 1e-12, "max_iter": 100_000} if peer is Lasso else {}
            regression = peer(alpha=alpha, **options).fit(
                design[b].numpy(), outputs[b, :, k].numpy(), weights[b].numpy()
            )
            np.testing.assert_allclose(actual[b, :, k].numpy(), regression.coef_, rtol=0, atol=1e-8)


@pytest.mark.parametrize("fit", [ridge, lasso])
def test_samples_of_weight_zero_and_units_that_never_vary_change_nothing(fit):
    design, outputs, weights = problem()
    expected = fit(design, outputs, weights, alpha=0.1)
    design = torch.nn.functional.pad(design, (0, 2, 0, 5))
    outputs = torch.nn.functional.pad(outputs, (0, 0, 0, 5))
    actual = fit(design, outputs, torch.nn.functional.pad(weights, (0, 5)), alpha=0.1)
    torch.testing.assert_close(actual[:, :7], expected, rtol=0, atol=1e-9)
    assert not actual[:, 7:].any()


def test_a_lasso_that_does_not_settle_warns(monkeypatch):
    monkeypatch.setattr("lightning_xai.attributions.surrogates._MAX_SWEEPS", 1)
    with pytest.warns(UserWarning, match="raise alpha above 0.01"):
        lasso(*problem(), alpha=0.01)


@pytest.mark.parametrize("num_samples, alpha", [(6, 0.02), (30, 0.02)])
def test_a_lasso_of_equal_columns_or_of_few_samples_reaches_the_least_objective(num_samples, alpha):
    design, outputs, weights = problem(num_samples=num_samples)
    design = torch.cat([design, design[..., :3]], dim=2)  # equal columns may share their coefficient in any proportion
    actual = lasso(design, outputs, weights, alpha=alpha)
    for b in range(2):
        for k in range(3):
            regression = Lasso(alpha=alpha, tol=1e-12, max_iter=1_000_000)
            regression.fit(design[b].numpy(), outputs[b, :, k].numpy(), weights[b].numpy())
            ours, peers = (
                lasso_objective(design[b], outputs[b, :, k], weights[b], coefficients, alpha)
                for coefficients in (actual[b, :, k], torch.from_numpy(regression.coef_))
            )
            assert ours <= peers + 1e-10


def lasso_objective(design, outputs, weights, coefficients, alpha):
    errors = outputs - design.double() @ coefficients
    errors = errors - (weights * errors).sum() / weights.sum()
    return float((weights * errors.square()).sum() / (2 * weights.sum()) + alpha * coefficients.abs().sum())


def test_the_lasso_of_an_example_and_output_does_not_depend_on_the_others():
    design, outputs, weights = problem()
    together = lasso(design, outputs, weights, alpha=0.05)
    alone = lasso(design[1:], outputs[1:, :, 2:], weights[1:], alpha=0.05)
    torch.testing.assert_close(together[1:, :, 2:], alone, rtol=0, atol=1e-10)


def test_additive_scores_solve_the_weighted_least_squares_with_the_sum_as_a_constraint():
    keep, outputs, weights = problem()
    differences = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]], dtype=torch.float64)
    actual = additive_fit(keep, outputs, weights, differences, torch.ones(2, 7, dtype=torch.bool))
    for b in range(2):
        # eliminate the last score, the difference minus the others
        design, root = keep[b].double(), weights[b].sqrt().unsqueeze(1)
        left = root * (design[:, :-1] - design[:, -1:])
        right = root * (outputs[b] - design[:, -1:] * differences[b])
        others = torch.linalg.lstsq(left, right).solution
        torch.testing.assert_close(actual[b, :-1], others, rtol=0, atol=1e-9)
        torch.testing.assert_close(actual[b].sum(dim=0), differences[b], rtol=0, atol=1e-12)


def test_additive_scores_that_samples_do_not_determine_are_the_smallest():
    keep = torch.tensor([[[True, False, False, False]]])  # does not determine how the last three share the rest
    actual = additive_fit(
        keep, torch.tensor([[[4.0]]]), torch.ones(1, 1), torch.tensor([[10.0]]), torch.ones(1, 4, dtype=torch.bool)
    )
    torch.testing.assert_close(actual[0, :, 0], torch.tensor([4.0, 2.0, 2.0, 2.0], dtype=torch.float64))


def smallest_additive_scores(keep, outputs, weights, differences):
    """Returns the smallest scores [M, K] of one example that fit, from the pseudo-inverse of its samples."""
    share = differences / keep.shape[1]
    root, sizes = weights.sqrt().unsqueeze(1), keep.double().sum(dim=1, keepdim=True)
    centered = keep.double() - sizes / keep.shape[1]
    return share + torch.linalg.pinv(root * centered, rtol=1e-8) @ (root * (outputs - sizes * share))


@pytest.mark.parametrize("num_samples", [4, 8, 9, 20])
def test_additive_scores_of_complementary_pairs_are_the_smallest_whatever_the_number_of_samples(num_samples):
    keep, outputs, weights = problem(num_units=9, num_samples=num_samples)
    keep[:, 1::2] = ~keep[:, : num_samples // 2 * 2 : 2]  # n pairs determine n directions, not 2 n
    differences = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]], dtype=torch.float64)
    actual = additive_fit(keep, outputs, weights, differences, torch.ones(2, 9, dtype=torch.bool))
    for b in range(2):
        expected = smallest_additive_scores(keep[b], outputs[b], weights[b], differences[b])
        torch.testing.assert_close(actual[b], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("num_samples", [5, 12])
def test_additive_scores_beside_a_longer_text_are_those_alone(num_samples):
    keep, outputs, weights = problem(num_units=8, num_samples=num_samples)
    keep[0, :, 3:] = False
    exists = torch.arange(8) < torch.tensor([[3], [8]])
    actual = additive_fit(keep, outputs, weights, torch.ones(2, 3, dtype=torch.float64), exists)
    expected = smallest_additive_scores(keep[0, :, :3], outputs[0], weights[0], torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(actual[0, :3], expected, rtol=0, atol=1e-9)


def test_additive_scores_of_missing_units_are_zero_and_change_no_other():
    keep, outputs, weights = problem()
    differences = torch.ones(2, 3, dtype=torch.float64)
    expected = additive_fit(keep, outputs, weights, differences, torch.ones(2, 7, dtype=torch.bool))
    exists = torch.arange(9).expand(2, -1) < 7
    actual = additive_fit(torch.nn.functional.pad(keep, (0, 2)), outputs, weights, differences, exists)
    torch.testing.assert_close(actual[:, :7], expected, rtol=0, atol=1e-10)
    assert not actual[:, 7:].any()
