import pytest
import torch
from torch.nn import functional as F

from lightning_xai.functional.propagation import frozen_attention
from lightning_xai.functional.propagation.frozen_attention import FrozenAttention

KEEP = torch.ones(2, 1, 5, 5, dtype=torch.bool)
KEEP[1, ..., 3:] = False  # padding
OPTIONS = {
    "plain": {},
    "scale": {"scale": 0.7},
    "causal": {"is_causal": True},
    "padding": {"attn_mask": KEEP},
    "padding of any query": {"attn_mask": KEEP[:, :, :1]},
    "distances": {"attn_mask": -torch.arange(25.0, dtype=torch.float64).view(5, 5)},
    "shared heads": {"enable_gqa": True},
}


def states(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(params=OPTIONS)
def case(request):
    """Queries, keys, values and options, with blocks of two queries."""
    heads = 1 if request.param == "shared heads" else 2
    return states(2, 2, 5, 2), states(2, heads, 5, 2), states(2, heads, 5, 2), OPTIONS[request.param]


@pytest.fixture(autouse=True)
def blocks_of_two_queries(monkeypatch):
    monkeypatch.setitem(frozen_attention._BLOCK, "cpu", 2 * 4 * 5)


def test_values_are_mixed_as_by_the_kernel(case):
    query, key, value, options = case
    mixed = FrozenAttention(query, key, options)(value)
    torch.testing.assert_close(mixed, F.scaled_dot_product_attention(query, key, value, **options))


def test_the_derivative_by_values_is_that_of_the_kernel(case):
    query, key, value, options = case
    cotangent = torch.randn(2, 2, 5, 2, dtype=torch.float64)
    wanted = torch.autograd.grad(F.scaled_dot_product_attention(query, key, value, **options), value, cotangent)
    torch.testing.assert_close(
        torch.autograd.grad(FrozenAttention(query, key, options)(value), value, cotangent), wanted
    )


def test_derivatives_are_right_to_the_second_order(case):
    query, key, value, options = case
    attention = FrozenAttention(query, key, options)
    assert torch.autograd.gradcheck(attention, value)
    assert torch.autograd.gradgradcheck(attention, value)


def test_cotangents_beside_each_other_give_what_each_gives_alone(case):
    query, key, value, options = case
    mixed = FrozenAttention(query, key, options)(value)
    cotangents = torch.randn(5, 2, 2, 5, 2, dtype=torch.float64)

    def pull_back(cotangent):
        return torch.autograd.grad(mixed, value, cotangent, retain_graph=True)[0]

    torch.testing.assert_close(torch.func.vmap(pull_back)(cotangents), torch.stack([*map(pull_back, cotangents)]))


def test_queries_and_keys_get_no_gradient(case):
    query, key, value, options = case
    FrozenAttention(query, key, options)(value).sum().backward()
    assert query.grad is None and key.grad is None and value.grad is not None


def test_sums_over_tokens_are_precise_in_half_precision():
    query, key, value = (torch.randn(1, 1, 400, 4).bfloat16() for _ in range(3))
    value.requires_grad_()
    derivative = torch.autograd.grad(FrozenAttention(query, key, {})(value).sum(), value)[0]
    wanted = (query.float() @ key.float().mT / 2).softmax(-1).sum(-2)
    # the tolerance is one rounding to bfloat16, of the result
    torch.testing.assert_close(derivative[..., 0].float(), wanted, rtol=2**-8, atol=0)
