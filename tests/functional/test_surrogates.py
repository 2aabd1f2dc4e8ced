import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso, Ridge

from lightning_xai.functional.surrogates import additive_fit, lasso, ridge


def problem(num_features=7, num_samples=40, num_outputs=3, batch=2):
    generator = torch.Generator().manual_seed(0)
    design = torch.rand(batch, num_samples, num_features, generator=generator) < 0.5
    outputs = torch.randn(batch, num_samples, num_outputs, generator=generator, dtype=torch.float64)
    outputs += design.double() @ torch.randn(num_features, num_outputs, generator=generator, dtype=torch.float64)
    weights = torch.rand(batch, num_samples, generator=generator, dtype=torch.float64)
    return design, outputs, weights


@pytest.mark.parametrize(
    "fit, peer, alpha", [(ridge, Ridge, 0.01), (ridge, Ridge, 3.0), (lasso, Lasso, 0.01), (lasso, Lasso, 0.3)]
)
def test_coefficients_are_those_of_scikit_learn(fit, peer, alpha):
    design, outputs, weights = problem()
    found = fit(design, outputs, weights, alpha=alpha)
    for b in range(2):
        for k in range(3):
            options = {"tol": 1e-12, "max_iter": 100_000} if peer is Lasso else {}
            regression = peer(alpha=alpha, **options).fit(
                design[b].numpy(), outputs[b, :, k].numpy(), weights[b].numpy()
            )
            np.testing.assert_allclose(found[b, :, k].numpy(), regression.coef_, rtol=0, atol=1e-8)


@pytest.mark.parametrize("fit", [ridge, lasso])
def test_samples_of_weight_zero_and_features_that_never_vary_change_nothing(fit):
    design, outputs, weights = problem()
    wanted = fit(design, outputs, weights, alpha=0.1)
    design = torch.nn.functional.pad(design, (0, 2, 0, 5))
    outputs = torch.nn.functional.pad(outputs, (0, 0, 0, 5))
    found = fit(design, outputs, torch.nn.functional.pad(weights, (0, 5)), alpha=0.1)
    torch.testing.assert_close(found[:, :7], wanted, rtol=0, atol=1e-9)
    assert not found[:, 7:].any()


def test_a_lasso_that_does_not_settle_warns(monkeypatch):
    monkeypatch.setattr("lightning_xai.functional.surrogates._MAX_SWEEPS", 1)
    with pytest.warns(UserWarning, match="raise alpha above 0.01"):
        lasso(*problem(), alpha=0.01)


def test_additive_scores_solve_the_weighted_least_squares_with_the_sum_as_a_constraint():
    kept, outputs, weights = problem()
    differences = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]], dtype=torch.float64)
    found = additive_fit(kept, outputs, weights, differences, torch.ones(2, 7, dtype=torch.bool))
    for b in range(2):
        # eliminate the last score: it is the difference less the others
        design, root = kept[b].double(), weights[b].sqrt().unsqueeze(1)
        left = root * (design[:, :-1] - design[:, -1:])
        right = root * (outputs[b] - design[:, -1:] * differences[b])
        others = torch.linalg.lstsq(left, right).solution
        torch.testing.assert_close(found[b, :-1], others, rtol=0, atol=1e-9)
        torch.testing.assert_close(found[b].sum(dim=0), differences[b], rtol=0, atol=1e-12)


def test_additive_scores_that_samples_leave_open_are_the_smallest():
    kept = torch.tensor([[[True, False, False, False]]])  # says nothing on how the last three share the rest
    found = additive_fit(
        kept, torch.tensor([[[4.0]]]), torch.ones(1, 1), torch.tensor([[10.0]]), torch.ones(1, 4, dtype=torch.bool)
    )
    torch.testing.assert_close(found[0, :, 0], torch.tensor([4.0, 2.0, 2.0, 2.0], dtype=torch.float64))


def test_additive_scores_of_absent_features_are_zero_and_change_no_other():
    kept, outputs, weights = problem()
    differences = torch.ones(2, 3, dtype=torch.float64)
    wanted = additive_fit(kept, outputs, weights, differences, torch.ones(2, 7, dtype=torch.bool))
    real = torch.arange(9).expand(2, -1) < 7
    found = additive_fit(torch.nn.functional.pad(kept, (0, 2)), outputs, weights, differences, real)
    torch.testing.assert_close(found[:, :7], wanted, rtol=0, atol=1e-10)
    assert not found[:, 7:].any()
