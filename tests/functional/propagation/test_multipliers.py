from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.functional.propagation.multipliers import (
    EXACT_SLOPES,
    exp_slope,
    norm_multipliers,
    secant_slope,
    softmax_multipliers,
)


def pair(*shape: int) -> tuple[Tensor, Tensor]:
    return torch.randn(*shape, dtype=torch.float64), torch.randn(*shape, dtype=torch.float64)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "square": torch.square,
    "cube": lambda x: x**3,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
}


@pytest.mark.parametrize("name", EXACT_SLOPES)
def test_slopes_written_out_are_secants(name: str) -> None:
    x, b = (values.abs() + 0.1 for values in pair(50))
    slope = (FUNCTIONS[name](x) - FUNCTIONS[name](b)) / (x - b)
    torch.testing.assert_close(EXACT_SLOPES[name](x, b), slope)


@pytest.mark.parametrize("distance", [1.0, 1e-3, 1e-9, 0.0])
def test_the_slope_of_near_points_is_the_derivative_between_them(distance: float) -> None:
    b = torch.linspace(-2, 2, 9, dtype=torch.float64)
    x = b + distance
    slope = secant_slope(torch.tanh, x, b, (x.tanh(), b.tanh()), smooth=True)
    middle = (x + b) / 2
    # the secant differs from the derivative in the middle by the order of the squared distance
    torch.testing.assert_close(slope, 1 - middle.tanh() ** 2, rtol=0, atol=distance**2 / 10 + 1e-9)


def test_a_kink_between_near_points_keeps_its_secant() -> None:
    x, b = torch.tensor([1e-9], dtype=torch.float64), torch.tensor([-3e-9], dtype=torch.float64)
    assert secant_slope(F.relu, x, b, (F.relu(x), F.relu(b)), smooth=False).item() == pytest.approx(0.25)


@pytest.mark.parametrize("distance", [2.0, 1e-9, 0.0])
def test_the_slope_of_exp_is_its_secant(distance: float) -> None:
    x = torch.tensor([0.5], dtype=torch.float64)
    slope = exp_slope(torch.full_like(x, distance), ((x + distance).exp(), x.exp()))
    wanted = x.exp() * torch.expm1(torch.tensor(distance, dtype=torch.float64)) / distance if distance else x.exp()
    torch.testing.assert_close(slope, wanted)


def test_softmax_multipliers_give_the_change_of_softmax() -> None:
    x, b = pair(3, 6)
    slopes, weights = softmax_multipliers(x, b, (x.softmax(-1), b.softmax(-1)), -1)
    change = slopes * ((x - b) - (weights * (x - b)).sum(-1, keepdim=True))
    torch.testing.assert_close(change, x.softmax(-1) - b.softmax(-1))


def test_norm_multipliers_give_the_change_of_the_norm() -> None:
    x, b = pair(3, 6)
    scale, middle, slope = norm_multipliers(x, b, (-1,), 1e-3)
    change = scale * (x - b) + middle * slope * (middle * (x - b)).mean(-1, keepdim=True)
    torch.testing.assert_close(change, F.rms_norm(x, (6,), eps=1e-3) - F.rms_norm(b, (6,), eps=1e-3))


def test_softmax_multipliers_do_not_depend_on_constants_added_to_inputs():
    x, b = pair(3, 6)
    wanted = softmax_multipliers(x, b, (x.softmax(-1), b.softmax(-1)), -1)
    for shift in (0.0, 50.0, 300.0):
        x_shifted, b_shifted = x + shift, b + shift
        shifted = softmax_multipliers(x_shifted, b_shifted, (x.softmax(-1), b.softmax(-1)), -1)
        torch.testing.assert_close(shifted, wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("shift", [30.0, 300.0, -300.0])
def test_softmax_multipliers_stay_bounded_when_one_side_is_shifted(shift):
    x, b = (t.float() for t in pair(3, 6))
    slopes, weights = softmax_multipliers(x + shift, b, (x.softmax(-1), b.softmax(-1)), -1)
    assert slopes.abs().max() <= 1 and 0 <= weights.min() and weights.sum(-1).max() < 7
