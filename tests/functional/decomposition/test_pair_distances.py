"""Distances computed in blocks equal those to the moved vectors of all pairs, and so do their derivatives."""

import pytest
import torch

from lightning_xai.functional.decomposition.pair_distances import l1_pair_distances


def drawn(rows, size, heads, dim, seed=1):
    """Attention [rows, heads, size, size], vectors [rows, size, heads, dim] and states [rows, size, dim]."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (rows, heads, size, size), (rows, size, heads, dim), (rows, size, dim)
    attention, vectors, states = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return attention.softmax(-1), vectors, states


def of_all_pairs(attention, vectors, states):
    moved = torch.einsum("nhij,njhd->nijd", attention, vectors)
    return (states.unsqueeze(2) - moved).abs().sum(dim=-1)


@pytest.mark.parametrize("chunk_elements", [1, 45, 100, 10**6, None])
@pytest.mark.parametrize("create_graph", [False, True])
def test_distances_in_blocks_of_any_size_are_those_of_all_pairs(chunk_elements, create_graph):
    arguments = drawn(2, 5, 3, 4)
    with torch.set_grad_enabled(create_graph):
        distances = l1_pair_distances(*arguments, chunk_elements=chunk_elements)
    torch.testing.assert_close(distances, of_all_pairs(*arguments))


def test_distances_of_more_targets_than_a_block_has():
    arguments = drawn(2, 150, 2, 3)
    torch.testing.assert_close(l1_pair_distances(*arguments, chunk_elements=2000), of_all_pairs(*arguments))


@pytest.mark.parametrize("create_graph", [False, True])
def test_distances_leave_their_arguments_as_they_were(create_graph):
    arguments = drawn(2, 5, 3, 4)
    before = [tensor.clone() for tensor in arguments]
    with torch.set_grad_enabled(create_graph):
        l1_pair_distances(*arguments, chunk_elements=1)
    assert all(torch.equal(tensor, wanted) for tensor, wanted in zip(arguments, before, strict=True))


@pytest.mark.parametrize("chunk_elements", [1, 30, None])
@pytest.mark.parametrize("places", [(0, 1, 2), (0,), (1,), (2,)])
def test_first_and_second_derivatives_are_those_of_all_pairs(chunk_elements, places):
    arguments = [tensor.requires_grad_(place in places) for place, tensor in enumerate(drawn(2, 4, 3, 4))]
    wanted_of = [arguments[place] for place in places]

    def derivatives(distances):
        first = torch.autograd.grad(distances.square().sum(), wanted_of, create_graph=True)
        total = torch.stack([gradient.sin().sum() for gradient in first]).sum()
        second = torch.autograd.grad(total, wanted_of)
        return [*first, *second]

    blocks = derivatives(l1_pair_distances(*arguments, chunk_elements=chunk_elements))
    for in_blocks, wanted in zip(blocks, derivatives(of_all_pairs(*arguments)), strict=True):
        torch.testing.assert_close(in_blocks, wanted)


def test_narrow_arguments_are_computed_in_the_widest_type():
    attention, vectors, states = drawn(1, 4, 3, 4)
    distances = l1_pair_distances(attention.float(), vectors.bfloat16(), states.float())
    assert distances.dtype == torch.float32
    wanted = of_all_pairs(attention.float(), vectors.bfloat16().float(), states.float())
    torch.testing.assert_close(distances, wanted)


def test_no_block_of_differences_is_kept_for_the_backward_pass():
    attention, vectors, states = (tensor.requires_grad_() for tensor in drawn(2, 12, 3, 40))
    kept: dict[int, int] = {}

    def note(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // 8
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        l1_pair_distances(attention, vectors, states, chunk_elements=2000)
    # by_source's copy of the attention, and the vectors and states themselves; all differences would be 2 * 144 * 40
    assert sum(kept.values()) <= attention.numel() + vectors.numel() + states.numel()
