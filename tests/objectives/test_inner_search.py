"""The search that finds noise and masks, row by row."""

from typing import Any

import pytest
import torch

from lightning_xai.objectives.inner_search import (
    AdamWState,
    Search,
    StepRule,
    Stop,
    adamw_step,
    minimize_rows,
    require_finite,
)


def search(num_steps: int, lr: float = 0.1, tolerance: float | None = None, stop: Stop = "example") -> Search:
    return Search(num_steps, lr, weight_decay=0.0, tolerance=tolerance, stop=stop)


def squares(variable):
    return variable.square().sum(dim=1) + 1


def test_adamw_step_is_torchs():
    start = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theirs = start.clone().requires_grad_()
    optimizer = torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.01)
    ours, moments = start, AdamWState.zeros(start)
    for step in range(5):
        gradient = (start + step).sin()
        theirs.grad = gradient
        optimizer.step()
        ours, moments = adamw_step(ours, gradient, moments, lr=0.1, weight_decay=0.01)
    assert torch.allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("step_rule", ["adamw", "sign"])
def test_search_lowers_every_row(step_rule: StepRule):
    start = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    minimum = minimize_rows(squares, start, search(5), step_rule=step_rule)
    assert (squares(minimum.variable) < squares(start)).all()


def test_sign_step_moves_every_element_by_the_learning_rate():
    minimum = minimize_rows(squares, torch.tensor([[1.0, -2.0]]), search(1, lr=0.25), step_rule="sign")
    assert minimum.variable.tolist() == [[0.75, -1.75]]


def test_without_tolerance_all_steps_are_taken():
    assert minimize_rows(squares, torch.zeros(2, 2), search(7)).num_steps.tolist() == [7, 7]


def test_flat_rows_stop_at_their_third_step_while_others_go_on():
    def values(variable):
        return variable[:, 0] * torch.tensor([0.0, 1.0]) + 100 * torch.tensor([1.0, 0.0])

    minimum = minimize_rows(values, torch.ones(2, 1), search(6, tolerance=0.005))
    assert minimum.num_steps.tolist() == [3, 6]


def test_the_step_at_which_a_row_stops_is_still_taken():
    def values(variable):
        return 1e-3 * variable[:, 0] + 100

    minimum = minimize_rows(values, torch.ones(1, 1), search(6, lr=0.25, tolerance=0.005), step_rule="sign")
    assert minimum.variable.item() == 0.25


def test_batch_stops_together_by_its_mean():
    def values(variable):
        return variable[:, 0] * torch.tensor([0.0, 1.0]) + 100 * torch.tensor([1.0, 0.0])

    minimum = minimize_rows(values, torch.ones(2, 1), search(6, tolerance=0.005, stop="batch"))
    assert minimum.num_steps.tolist() == [3, 3]


def test_a_row_found_in_a_batch_is_the_row_found_alone():
    start = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    together = minimize_rows(squares, start, search(12, tolerance=0.02))
    for row in range(4):
        alone = minimize_rows(squares, start[row : row + 1], search(12, tolerance=0.02))
        assert torch.equal(alone.variable[0], together.variable[row])


def test_gradient_scale_lifts_gradients_over_adamws_epsilon():
    start = torch.ones(1, 1, dtype=torch.float64)

    def moved(scale):
        minimum = minimize_rows(lambda v: 1e-11 * v[:, 0], start, search(1), gradient_scale=scale)
        return (start - minimum.variable).item()

    assert moved(1.0) < 1e-3 and moved(1e9) == pytest.approx(0.1, rel=1e-3)


def test_search_gives_no_gradient_to_other_tensors():
    weight = torch.ones(2, requires_grad=True)
    minimize_rows(lambda v: (v * weight).square().sum(1), torch.ones(3, 2), search(2))
    assert weight.grad is None


def test_rows_that_are_not_finite_are_named():
    variable = torch.tensor([[1.0], [float("nan")]])
    with pytest.raises(ValueError, match=r"token mask of the examples with indices \[8\]"):
        require_finite(variable, torch.tensor([7, 8]), "token mask")


@pytest.mark.parametrize(
    "setting", [{"num_steps": 0}, {"lr": 0.0}, {"weight_decay": -1.0}, {"tolerance": -1.0}, {"stop": "row"}]
)
def test_a_setting_out_of_range_is_refused(setting: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(setting))):
        Search(**({"num_steps": 5} | setting))
