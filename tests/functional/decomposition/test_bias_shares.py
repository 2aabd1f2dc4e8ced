import pytest
import torch

from lightning_xai.functional.decomposition.bias_shares import BiasShares, distribute_bias

VECTORS = torch.tensor([[[3.0, 4.0], [-1.0, 0.0], [0.0, 2.0]]], dtype=torch.float64)  # one target, three sources
BIAS = torch.tensor([2.0, 0.0], dtype=torch.float64)

# products with the bias 6, -2, 0; cosines .6, -1, 0; lengths 5, 1, 2
SHARES = {
    "absdot": [6 / 8, 2 / 8, 0],
    "abssim": [0.6 / 1.6, 1 / 1.6, 0],
    "norm": [5 / 8, 1 / 8, 2 / 8],
    "equal": [1 / 3, 1 / 3, 1 / 3],
    "cls": [1, 0, 0],
    "token": [0, 0, 1],
    "none": [0, 0, 0],
}


@pytest.mark.parametrize("rule", SHARES)
def test_a_bias_is_distributed_in_the_shares_of_its_rule(rule):
    given = distribute_bias(VECTORS, BIAS, rule) - VECTORS
    wanted = torch.tensor(SHARES[rule], dtype=torch.float64).unsqueeze(-1) * BIAS
    torch.testing.assert_close(given[0], wanted)


@pytest.mark.parametrize("rule", ["absdot", "abssim", "norm"])
def test_a_second_bias_meets_vectors_that_have_their_shares_of_the_first(rule):
    second = torch.tensor([[0.5, -1.5]], dtype=torch.float64)  # of one target
    shares = BiasShares(rule, {"first": BIAS, "second": second})
    columns = shares.enter("second", shares.enter("first", VECTORS[:, :0]))
    for chunk in VECTORS.split(2, dim=1):
        shares.record("second", shares.record("first", chunk))
    wanted = distribute_bias(distribute_bias(VECTORS, BIAS, rule), second, rule)
    fractions = shares.shares()
    assert fractions is not None
    torch.testing.assert_close(VECTORS + fractions @ columns, wanted)


def test_a_bias_of_zeros_changes_nothing():
    assert torch.equal(distribute_bias(VECTORS, torch.zeros(2, dtype=torch.float64), "absdot"), VECTORS)
