import pytest
import torch
from torch import Tensor, nn

from lightning_xai.functional.decomposition.bias_shares import BiasRule
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, LayerTrace, trace_layer
from lightning_xai.functional.decomposition.frozen_activation import Approximation
from lightning_xai.functional.decomposition.frozen_layer import FeedForward, freeze_layer
from lightning_xai.functional.decomposition.source_sums import (
    SourceSums,
    decompose_head,
    decompose_layer,
    decompose_mixtures,
)
from tests.functional.decomposition.conftest import Stack, random_layer, random_trace

RULES: list[BiasRule] = ["absdot", "abssim", "norm", "equal", "cls", "token"]
ALL = torch.arange(6)


def decomposed(
    stack: tuple[list[EncoderLayer], list[LayerTrace]],
    rule: BiasRule,
    *,
    rows: Tensor = ALL,
    chunk_size: int = 2,
    feed_forward: FeedForward = "zero_origin",
    scratch: Tensor | None = None,
) -> Tensor:
    """Returns vectors [R, S, D] after as many layers as there are traces."""
    layers, traces = stack
    sums: SourceSums | None = None
    for place, (layer, trace) in enumerate(zip(layers, traces, strict=True)):
        targets = rows if place == len(traces) - 1 else ALL
        frozen = freeze_layer(layer, trace, targets, is_first=place == 0, feed_forward=feed_forward, scratch=scratch)
        attended: list[tuple[Tensor, Tensor | None]]
        if sums is None:
            slices = [slice(first, min(first + chunk_size, 6)) for first in range(0, 6, chunk_size)]
            attended = [frozen.attend_to_tokens(sources) for sources in slices]
            if rule == "token":
                attended.append((torch.zeros_like(attended[0][0][:, :1]), None))
        else:
            attended = [frozen.attend(chunk) for chunk in sums.chunks()]
        sums = decompose_layer(frozen, attended, rule)
    assert sums is not None
    return torch.cat(list(sums.chunks()), dim=1)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("depth", [1, 2])
def test_vectors_of_all_sources_sum_to_the_state_after_every_layer(stack: Stack, rule: BiasRule, depth: int) -> None:
    layers, traces = stack[0][:depth], stack[1][:depth]
    sums = decomposed((layers, traces), rule).sum(dim=1)
    torch.testing.assert_close(sums, traces[-1].output[0], rtol=1e-10, atol=1e-10)


def test_vectors_of_a_few_targets_are_those_that_they_have_among_all(stack: Stack) -> None:
    every = decomposed(stack, "absdot")
    for rows in (torch.tensor([0]), torch.tensor([1, 4])):  # mixed before projecting, and after
        torch.testing.assert_close(decomposed(stack, "absdot", rows=rows), every[rows])


@pytest.mark.parametrize("rule", ["absdot", "norm"])
def test_sources_may_come_in_chunks_of_any_size(stack: Stack, rule: BiasRule) -> None:
    wanted = decomposed(stack, rule, chunk_size=6)
    for chunk_size in (1, 4):
        torch.testing.assert_close(decomposed(stack, rule, chunk_size=chunk_size), wanted)


@pytest.mark.parametrize("feed_forward", ["zero_origin", "local_affine"])
@pytest.mark.parametrize("rule", ["absdot", "equal", "cls", "none"])
@pytest.mark.parametrize("depth", [1, 2])
def test_mixtures_of_targets_are_those_of_their_vectors(rule: BiasRule, depth: int, feed_forward: FeedForward) -> None:
    hidden, sums = torch.randn(1, 6, 8).double(), None
    for place in range(depth):
        layer = random_layer(norm_first=False)
        trace = trace_layer(layer, hidden, torch.randn(1, 4, 6, 6).double().softmax(-1))
        frozen = freeze_layer(layer, trace, ALL, is_first=place == 0, feed_forward=feed_forward)
        attended: list[tuple[Tensor, Tensor | None]]
        if sums is None:
            attended = [frozen.attend_to_tokens(slice(first, first + 2)) for first in (0, 2, 4)]
        else:
            attended = [frozen.attend(chunk) for chunk in sums.chunks()]
        sums, hidden = decompose_layer(frozen, attended, rule), trace.output
    assert sums is not None
    weights = torch.randn(3, 6).double()
    mixtures = torch.cat(decompose_mixtures(frozen, attended, rule, weights), dim=1)
    wanted = torch.einsum("wr,rsd->wsd", weights, torch.cat(list(sums.chunks()), dim=1))
    torch.testing.assert_close(mixtures, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rule", [*RULES, "none"])
def test_vectors_are_the_same_where_no_graph_keeps_their_memory(stack: Stack, rule: BiasRule) -> None:
    wanted = decomposed(stack, rule)
    with torch.no_grad():
        in_place = decomposed(stack, rule, scratch=torch.empty(6 * 2 * 64, dtype=torch.float64))
    torch.testing.assert_close(in_place, wanted, rtol=1e-12, atol=1e-12)


def test_tangents_sum_to_the_state_too() -> None:
    layer = random_layer(norm_first=False)
    trace = random_trace(layer)
    sums = decomposed(([layer], [trace]), "absdot", feed_forward="local_affine").sum(dim=1)
    torch.testing.assert_close(sums, trace.output[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("activation", ["zero_origin", "local_affine"])
def test_outputs_of_a_head_sum_to_its_output(activation: Approximation) -> None:
    head = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3)).double()
    vectors = torch.randn(2, 5, 8, dtype=torch.float64)
    states = vectors.sum(dim=1)
    outputs = decompose_head(list(head), vectors, states, rule="absdot", activation=activation)
    torch.testing.assert_close(outputs.sum(dim=1), head(states))
