import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lightning_xai.functional.propagation.frozen_coefficients import FrozenCoefficients, activation_slope
from lightning_xai.functional.propagation.tracked import Tracked, track


def frozen(states):
    return track(states, FrozenCoefficients(detached=True))


def states(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def by_states(output, leaf):
    """Returns the sum of states times derivatives, which is a linear function without its constant."""
    return float((torch.autograd.grad(output.plain().sum(), leaf)[0] * leaf).sum().detach())


LINEAR = {
    "layer_norm": lambda x: F.layer_norm(x, (5,), torch.arange(5.0).double()),
    "rms_norm": lambda x: F.rms_norm(x, (5,), eps=1e-6),
    "rms_norm written out": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "activation": F.gelu,
    "gelu written out": lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * torch.pow(x, 3.0)))),
    "gated unit": lambda x: F.silu(x[:, :2]) * x[:, 2:4],
    "attention written out": lambda x: (x @ x.T * 0.3).softmax(-1) @ x,
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "causal attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "structure": lambda x: torch.stack([x.roll(1, 0).T.flatten(), -2 * x.reshape(-1)]).sum(0) / 3,
    "quotient": lambda x: x / (1 + x.abs()),
}


@pytest.mark.parametrize("name", LINEAR)
def test_states_times_derivative_give_the_value(name):
    x = states(4, 5)
    output = LINEAR[name](frozen(x))
    assert output.nonlinear_function is None
    torch.testing.assert_close(output.plain(), LINEAR[name](x))
    assert by_states(output, x) == pytest.approx(float(LINEAR[name](x).sum().detach()), abs=1e-12)


@pytest.mark.parametrize("name", LINEAR)
def test_a_second_run_is_linear_with_the_coefficients_of_the_first(name):
    x, run = states(4, 5), states(4, 5)

    def second(states):
        return LINEAR[name](track(x, FrozenCoefficients(detached=True), states)).second_run

    torch.testing.assert_close(second(run + 3 * x), second(run) + 3 * LINEAR[name](x))


NOT_LINEAR = {
    "cos": torch.cos,
    "amax": lambda x: x.amax(-1),
    "pow": lambda x: x.pow(2),
    "matmul": lambda x: x @ x.T,
    "mul": lambda x: x * x,
    "softmax": lambda x: x + x.softmax(-1),
    "sigmoid": lambda x: F.linear(x.sigmoid(), torch.ones(2, 5).double()),
    "reciprocal": lambda x: x.reciprocal(),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_what_is_not_linear_is_refused_as_a_result_and_named(name):
    rules = FrozenCoefficients(detached=True)
    with pytest.raises(ValueError, match=f"{name} has no linear rule"):
        rules.linear(NOT_LINEAR[name](track(states(4, 5), rules)))


def test_a_result_without_states_is_refused():
    with pytest.raises(ValueError, match="do not depend"):
        FrozenCoefficients(detached=True).linear(torch.ones(3))


def test_writing_in_place_keeps_a_tensor_tracked():
    x = states(4, 5)
    doubled = frozen(x) * 2
    doubled.masked_fill_(torch.eye(4, 5, dtype=torch.bool), 7.0)
    assert by_states(doubled, x) == pytest.approx(float(2 * x.masked_fill(torch.eye(4, 5).bool(), 0.0).sum().detach()))


@pytest.mark.parametrize("write", [lambda x: (x * 1).mul_(x), lambda x: F.relu(x, inplace=True)])
def test_writing_something_not_linear_is_refused(write):
    with pytest.raises(ValueError, match="writes a non-linear result"):
        write(frozen(states(4, 5)))


def test_writing_states_into_another_tensor_is_refused():
    with pytest.raises(ValueError, match="setitem writes hidden states into a tensor that does not depend on them"):
        torch.zeros(4, 5).double()[:] = frozen(states(4, 5))


def test_dropout_has_one_mask_for_both_runs():
    x = torch.ones(200, dtype=torch.float64)
    output = F.dropout(track(x, FrozenCoefficients(detached=True), x.clone()), 0.5, training=True)
    assert isinstance(output, Tracked)
    torch.testing.assert_close(output.plain(), output.second_run)
    assert 0 < (output.plain() == 0).sum() < 200


@pytest.mark.parametrize("activation", [F.gelu, torch.tanh, F.silu, F.relu])
def test_the_slope_at_zero_is_the_derivative(activation):
    zero = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    wanted = torch.autograd.grad(activation(zero), zero)[0]
    slope = activation_slope(activation, torch.tensor([0.0, 2.0], dtype=torch.float64))
    torch.testing.assert_close(slope, torch.cat([wanted, activation(torch.tensor([2.0]).double()) / 2]))


def test_modules_may_be_used_twice():
    x, layer = states(4, 5), nn.Sequential(nn.Linear(5, 5, bias=False), nn.Tanh()).double()
    output = layer(layer(frozen(x)))
    assert by_states(output, x) == pytest.approx(float(layer(layer(x)).sum().detach()))
