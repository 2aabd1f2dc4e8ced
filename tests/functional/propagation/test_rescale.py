import pytest
import torch
from torch.nn import functional as F

from lightning_xai.functional.propagation.rescale import Rescale
from lightning_xai.functional.propagation.tracked import Tracked, track


def tracked(output: torch.Tensor) -> Tracked:
    assert isinstance(output, Tracked)
    return output


def delta(function, *pairs):
    """Returns the completeness error of `function` for tracked (x, b) pairs, with random weights of the outputs."""
    leaves = [x.clone().requires_grad_() for x, _ in pairs]
    output = function(*(track(leaf, Rescale(), b) for leaf, (_, b) in zip(leaves, pairs, strict=True)))
    torch.testing.assert_close(output.plain().detach(), function(*(x for x, _ in pairs)))
    torch.testing.assert_close(output.second_run, function(*(b for _, b in pairs)))
    weights = torch.randn_like(output.second_run)
    gradients = torch.autograd.grad((output.plain() * weights).sum(), leaves)
    change = sum((g * (x - b)).sum() for g, (x, b) in zip(gradients, pairs, strict=True))
    return float(change - ((output.plain().detach() - output.second_run) * weights).sum())


def pair(*shape, scale=1.0):
    return scale * torch.randn(*shape, dtype=torch.float64), scale * torch.randn(*shape, dtype=torch.float64)


FUNCTIONS = {
    "layer_norm": lambda x: F.layer_norm(x, (5,), torch.arange(5.0).double(), torch.ones(5).double()),
    "rms_norm": lambda x: F.rms_norm(x, (5,), torch.arange(5.0).double(), 1e-6),
    "softmax": lambda x: x.softmax(-1),
    "softmax_first": lambda x: F.softmax(x, dim=0),
    "quotient": lambda x: x / (1 + x * x),
    "reciprocal": lambda x: 1 / (2 + x.exp()),
    "powers": lambda x: x**2 + x.pow(3) + (x * x + 1) ** -0.5 + torch.sqrt(x * x + 1),
    "square of itself": lambda x: x * x,
    "relu": F.relu,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "structure": lambda x: torch.cat([x[:, 1:], -x[:, :1]], dim=1).transpose(0, 1).reshape(2, -1).mean(0),
    "masked": lambda x: torch.where(x.new_ones(4, 5).bool().tril(), x, 2.0).masked_fill(x.new_ones(4, 5).bool(), 1.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_multipliers_are_complete(name):
    assert abs(delta(FUNCTIONS[name], pair(4, 5))) < 1e-12


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_inputs_have_finite_multipliers(name):
    x, _ = pair(4, 5)
    assert delta(FUNCTIONS[name], (x, x.clone())) == 0


def test_a_product_shares_its_change_by_the_means():  # by hand: 3 * 5 - 1 * 2 = 13 = (3 - 1) * 3.5 + (5 - 2) * 2
    u, v = torch.tensor([3.0], requires_grad=True), torch.tensor([5.0], requires_grad=True)
    product = tracked(track(u, Rescale(), torch.tensor([1.0])) * track(v, Rescale(), torch.tensor([2.0])))
    assert [g.item() for g in torch.autograd.grad(product.plain(), (u, v))] == [3.5, 2.0]


def test_relu_passes_on_its_secant():  # by hand: (3 - 0) / (3 - -1)
    x = torch.tensor([3.0], requires_grad=True)
    output = tracked(track(x, Rescale(), torch.tensor([-1.0])).relu())
    assert torch.autograd.grad(output.plain(), x)[0].item() == 0.75


@pytest.mark.parametrize("function", [torch.matmul, torch.bmm, lambda a, b: torch.einsum("bij,bjk->bik", a, b)])
def test_products_of_two_states_are_complete(function):
    assert abs(delta(function, pair(2, 3, 4), pair(2, 4, 3))) < 1e-12


def test_attention_is_complete():
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    attend = [pair(2, 4, 3, 5), pair(2, 4, 3, 5), pair(2, 4, 3, 5)]
    missed = delta(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), *attend)
    assert abs(missed) < 1e-12


def test_masked_scores_have_no_multiplier():
    x, b = pair(2, 4)
    keep = torch.tensor([True, True, False, True])
    leaf = x.clone().requires_grad_()
    for low in (float("-inf"), torch.finfo(torch.float64).min):
        output = tracked(track(leaf, Rescale(), b).masked_fill(~keep, low).softmax(-1))
        gradient = torch.autograd.grad((output.plain() * torch.randn(2, 4)).sum(), leaf)[0]
        assert gradient.isfinite().all() and not gradient[:, 2].any()


@pytest.mark.parametrize("function", [torch.cos, torch.amax, lambda x: x.pow(5), lambda x: F.dropout(x, 0.5)])
def test_functions_without_a_rule_are_refused(function):
    with pytest.raises(ValueError, match="(cos|amax|pow|dropout) has no DeepLift rule"):
        function(track(torch.ones(3), Rescale(), torch.zeros(3)))


def test_writing_states_into_another_tensor_is_refused():
    with pytest.raises(ValueError, match="copy_ writes hidden states into a tensor that does not depend on them"):
        torch.zeros(3).copy_(track(torch.ones(3), Rescale(), torch.zeros(3)))
