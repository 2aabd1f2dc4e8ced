"""Norms and distances by inner products equal those of the vectors T_ij, formed for every pair of tokens."""

import pytest
import torch

from lightning_xai.functional.decomposition.contributions import (
    alti_contributions,
    diagonal_vectors,
    l1_distances,
    l2_distances,
    safe_sqrt,
    transformed_norms,
)


@pytest.fixture
def parts():
    """Attention [2, 3, 5, 5], vectors [2, 5, 3, 4], residual [2, 5, 4], resultants [2, 5, 4] and pair vectors T."""
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    attention, vectors, residual, resultants = (
        draw(2, 3, 5, 5).softmax(-1),
        draw(2, 5, 3, 4),
        draw(2, 5, 4),
        draw(2, 5, 4),
    )
    pairs = torch.einsum("nhij,njhd->nijd", attention, vectors)
    pairs[:, range(5), range(5)] += residual
    return attention, vectors, residual, resultants, pairs


def test_diagonal_vectors_are_the_diagonal_of_the_pair_vectors(parts):
    attention, vectors, residual, _, pairs = parts
    torch.testing.assert_close(diagonal_vectors(attention, vectors, residual), pairs[:, range(5), range(5)])


def test_norms_are_those_of_the_pair_vectors(parts):
    attention, vectors, residual, _, pairs = parts
    torch.testing.assert_close(transformed_norms(attention, vectors, residual), pairs.norm(dim=-1))


def test_l2_distances_are_those_to_the_pair_vectors(parts):
    *arguments, pairs = parts
    wanted = (arguments[3].unsqueeze(2) - pairs).norm(dim=-1)
    torch.testing.assert_close(l2_distances(*arguments), wanted)


def test_l1_distances_are_those_to_the_pair_vectors(parts):
    *arguments, pairs = parts
    wanted = (arguments[3].unsqueeze(2) - pairs).abs().sum(dim=-1)
    torch.testing.assert_close(l1_distances(*arguments), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_contributions_have_the_right_gradients(parts, norm):
    arguments = [tensor[:, :, :3, :3] if place == 0 else tensor[:, :3] for place, tensor in enumerate(parts[:4])]
    arguments = [tensor.clone().requires_grad_() for tensor in arguments]
    assert torch.autograd.gradcheck(lambda *tensors: alti_contributions(*tensors, norm=norm), arguments)


def test_contributions_of_two_sources_worked_out_by_hand():
    # T_00 = (1, 0), T_01 = (0, 1), T_10 = (0, 0), T_11 = (2, 2); y = (1, 2) and (2, 2)
    # distances (2, 2) of |y_0| = 3 and (4, 0) of |y_1| = 4: contributions (1, 1) / 2 and (0, 4) / 4
    attention = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])
    vectors = torch.tensor([[[[5.0, 5.0]], [[0.0, 1.0]]]])
    residual = torch.tensor([[[1.0, 0.0], [2.0, 1.0]]])
    resultants = torch.tensor([[[1.0, 2.0], [2.0, 2.0]]])
    contributions = alti_contributions(attention, vectors, residual, resultants, norm="l1")
    torch.testing.assert_close(contributions, torch.tensor([[[0.5, 0.5], [0.0, 1.0]]]))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_state_that_no_source_brings_nearer_is_its_own_tokens(norm):
    attention, vectors = torch.full((1, 1, 2, 2), 0.5), torch.tensor([[[[-1.0]], [[-1.0]]]])
    contributions = alti_contributions(attention, vectors, torch.zeros(1, 2, 1), torch.ones(1, 2, 1), norm=norm)
    assert torch.equal(contributions, torch.eye(2).unsqueeze(0))


def test_the_root_of_zero_has_a_finite_gradient():
    squares = torch.tensor([0.0, 4.0], requires_grad=True)
    roots = safe_sqrt(squares)
    roots.sum().backward()
    assert squares.grad is not None
    assert roots.tolist() == [0.0, 2.0] and squares.grad.tolist() == [0.0, 0.25]
