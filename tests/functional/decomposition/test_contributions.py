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


@pytest.mark.parametrize("chunk_elements", [1, 45, 100, 10**6, None])
@pytest.mark.parametrize("create_graph", [False, True])
def test_l1_distances_are_those_to_the_pair_vectors_in_blocks_of_any_size(parts, chunk_elements, create_graph):
    *arguments, pairs = parts
    wanted = (arguments[3].unsqueeze(2) - pairs).abs().sum(dim=-1)
    with torch.set_grad_enabled(create_graph):
        distances = l1_distances(*arguments, chunk_elements=chunk_elements)
    torch.testing.assert_close(distances, wanted)


def test_l1_distances_of_more_targets_than_a_block_has():
    attention, vectors = torch.rand(2, 2, 150, 150), torch.randn(2, 150, 2, 3)
    residual, resultants = torch.randn(2, 150, 3), torch.randn(2, 150, 3)
    pairs = torch.einsum("nhij,njhd->nijd", attention, vectors)
    pairs[:, range(150), range(150)] += residual
    wanted = (resultants.unsqueeze(2) - pairs).abs().sum(dim=-1)
    torch.testing.assert_close(l1_distances(attention, vectors, residual, resultants, chunk_elements=2000), wanted)


@pytest.mark.parametrize("create_graph", [False, True])
def test_l1_distances_leave_their_arguments_as_they_were(parts, create_graph):
    *arguments, _ = parts
    before = [tensor.clone() for tensor in arguments]
    with torch.set_grad_enabled(create_graph):
        l1_distances(*arguments, chunk_elements=1)
    assert all(torch.equal(tensor, wanted) for tensor, wanted in zip(arguments, before, strict=True))


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
