"""Multipliers of constraints: oracle E10, a problem with a known optimum, and what a checkpoint keeps."""

from typing import Any

import pytest
import torch

from lightning_xai.objectives.dual_ascent import Constraint, DualAscent


def rmsprop(parameters):
    return torch.optim.RMSprop(parameters, lr=0.05)


def test_trajectory_is_that_of_oracle_e10():
    dual = DualAscent(1, rmsprop)
    alphas = []
    for loss in (0.10, 0.10, 0.02):
        dual.step(torch.tensor([loss - 0.035]))
        alphas.append(dual.alpha.item())
    assert alphas == pytest.approx([1.499999, 1.854439, 1.773323], abs=1e-6)


def test_multiplier_never_falls_below_0_and_rises_again():
    dual = DualAscent(2, lambda p: torch.optim.SGD(p, lr=10.0))
    dual.step(torch.tensor([-1.0, 0.1]))
    assert dual.alpha.tolist() == [0.0, 2.0]
    dual.step(torch.tensor([0.2, -0.05]))
    assert dual.alpha.tolist() == pytest.approx([2.0, 1.5])


def test_moving_average_replaces_the_violation():
    dual = DualAscent(1, lambda p: torch.optim.SGD(p, lr=1.0), averaging=0.75)
    dual.step(torch.tensor([1.0]))
    dual.step(torch.tensor([-1.0]))
    assert dual.average.item() == pytest.approx(0.5) and dual.alpha.item() == pytest.approx(2.5)


@pytest.mark.slow
def test_known_optimum_is_reached_within_a_percent():
    # minimize (x - 2)^2 subject to x <= 1: x = 1, alpha = 2
    x, dual = torch.tensor(0.0, requires_grad=True), DualAscent(1, rmsprop)
    optimizer = torch.optim.SGD([x], lr=0.1)
    num_steps = 600
    for step in range(num_steps):
        violation = x - 1.0
        optimizer.zero_grad()
        ((x - 2).square() + dual.alpha[0].clone() * violation).backward()
        optimizer.step()
        dual.step(violation.detach().unsqueeze(0), rate_factor=1 - step / num_steps)
    assert x.item() == pytest.approx(1.0, rel=0.01) and dual.alpha.item() == pytest.approx(2.0, rel=0.01)


def test_state_of_a_checkpoint_continues_with_the_same_numbers():
    violations = torch.randn(8, 2)
    whole, first, resumed = (DualAscent(2, rmsprop, averaging=0.5) for _ in range(3))
    for violation in violations:
        whole.step(violation)
    for violation in violations[:4]:
        first.step(violation)
    resumed.load_state_dict(first.state_dict())
    resumed.load_optimizer_state(first.optimizer_state())
    for violation in violations[4:]:
        resumed.step(violation)
    assert torch.equal(whole.alpha, resumed.alpha) and torch.equal(whole.average, resumed.average)


@pytest.mark.parametrize("bounds", [{"bound": 0.0}, {"bound": -1.0}, {"bound": float("nan")}, {"bound": True}])
def test_bound_out_of_range_is_refused(bounds):
    with pytest.raises(ValueError, match="bound is"):
        Constraint(**bounds)


def test_validation_bound_out_of_range_is_refused():
    with pytest.raises(ValueError, match="validation_bound is inf"):
        Constraint(0.1, float("inf"))


def test_a_bound_that_is_another_word_than_auto_is_refused():
    word: Any = "aut"
    with pytest.raises(ValueError, match="bound is aut: give a number above 0 .for `bound`, 'auto' is allowed, too"):
        Constraint(word)
