import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lightning_xai.functional.decomposition.frozen_activation import linearize

VALUES = torch.tensor([-2.0, 0.0, 0.5], dtype=torch.float64)


def test_a_line_through_the_origin_meets_the_activation_and_is_its_tangent_at_zero() -> None:
    slope, intercept = linearize(torch.tanh, VALUES, "zero_origin")
    assert intercept is None
    torch.testing.assert_close(slope, torch.tensor([0.48201379, 1.0, 0.92423431], dtype=torch.float64))


def test_a_tangent_has_the_derivative_and_the_rest_as_intercept() -> None:
    # 1 - tanh(2)^2 = .0706508, 1 - tanh(.5)^2 = .7864477
    slope, intercept = linearize(torch.tanh, VALUES, "local_affine")
    torch.testing.assert_close(slope, torch.tensor([0.07065082, 1.0, 0.78644773], dtype=torch.float64))
    assert intercept is not None
    torch.testing.assert_close(slope * VALUES + intercept, torch.tanh(VALUES))


def test_relu_keeps_values_above_zero_whatever_the_activation() -> None:
    slope, intercept = linearize(F.gelu, VALUES, "relu")
    assert intercept is None and slope.tolist() == [0, 0, 1]


def test_an_activation_that_is_not_zero_at_zero_has_no_line_through_the_origin() -> None:
    with pytest.raises(ValueError, match=r"Sigmoid is 0\.5 at 0"):
        linearize(nn.Sigmoid(), VALUES, "zero_origin")
