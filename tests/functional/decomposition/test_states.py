"""Layers of both forms, built from their parts, so that no architecture is needed."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, trace_layer
from lightning_xai.functional.decomposition.frozen_activation import linearize
from lightning_xai.functional.decomposition.frozen_layer import freeze_layer, freeze_norm
from lightning_xai.functional.decomposition.states import decompose_head, decompose_layer, read_layer


class RMSNorm(nn.Module):
    """Llama's, without its detour through float32."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))
        self.variance_epsilon = 1e-6

    def forward(self, states):
        return self.weight * states * (states.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()


RULES = ["absdot", "abssim", "norm", "equal", "cls", "token"]
ALL = torch.arange(6)


def layer(*, norm_first: bool) -> EncoderLayer:
    parts = {
        "value": nn.Linear(8, 4 if norm_first else 8), "output": nn.Linear(8, 8), "up": nn.Linear(8, 12),
        "down": nn.Linear(12, 8), "attention_norm": nn.LayerNorm(8), "feed_forward_norm": nn.LayerNorm(8),
    }  # fmt: skip
    if norm_first:
        norms = {name: RMSNorm(8) for name in ("attention_norm", "feed_forward_norm")}
        parts |= norms | {"gate": nn.Linear(8, 12, bias=False)}
    for module in parts.values():
        for parameter in module.parameters():
            nn.init.normal_(parameter)
    module = nn.ModuleDict(parts).double()
    activation = F.silu if norm_first else F.gelu
    return EncoderLayer(module=module, activation=activation, num_heads=4, norm_first=norm_first, **parts)


def decomposed(parts, traces, rule, *, rows=ALL, chunk_size=2, feed_forward="zero_origin", scratch=None):
    """Returns vectors [R, S, D] after as many layers as there are traces."""
    states = None
    for place, (part, trace) in enumerate(zip(parts, traces, strict=True)):
        targets = rows if place == len(traces) - 1 else ALL
        frozen = freeze_layer(part, trace, targets, is_first=place == 0, feed_forward=feed_forward, scratch=scratch)
        if states is None:
            slices = [slice(first, min(first + chunk_size, 6)) for first in range(0, 6, chunk_size)]
            attended = [frozen.attend_to_tokens(sources) for sources in slices]
            if rule == "token":
                attended.append((torch.zeros_like(attended[0][0][:, :1]), None))
        else:
            attended = [frozen.attend(chunk) for chunk in states.chunks()]
        states = decompose_layer(frozen, attended, rule)
    return torch.cat(list(states.chunks()), dim=1)


@pytest.fixture(params=[False, True], ids=["post-norm", "pre-norm with a gate"])
def stack(request):
    parts = [layer(norm_first=request.param) for _ in range(2)]
    hidden, traces = torch.randn(1, 6, 8, dtype=torch.float64), []
    for part in parts:
        attention = torch.randn(1, 4, 6, 6, dtype=torch.float64).softmax(-1)
        traces.append(trace_layer(part, hidden, attention))
        hidden = traces[-1].output
    return parts, traces


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("depth", [1, 2])
def test_vectors_of_all_sources_sum_to_the_state_after_every_layer(stack, rule, depth):
    parts, traces = (values[:depth] for values in stack)
    found = decomposed(parts, traces, rule).sum(dim=1)
    torch.testing.assert_close(found, traces[-1].output[0], rtol=1e-10, atol=1e-10)


def test_vectors_of_a_few_targets_are_those_that_they_have_among_all(stack):
    every = decomposed(*stack, "absdot")
    for rows in (torch.tensor([0]), torch.tensor([1, 4])):  # mixed before projecting, and after
        torch.testing.assert_close(decomposed(*stack, "absdot", rows=rows), every[rows])


@pytest.mark.parametrize("rule", ["absdot", "norm"])
def test_sources_may_come_in_chunks_of_any_size(stack, rule):
    wanted = decomposed(*stack, rule, chunk_size=6)
    for chunk_size in (1, 4):
        torch.testing.assert_close(decomposed(*stack, rule, chunk_size=chunk_size), wanted)


@pytest.mark.parametrize("feed_forward", ["zero_origin", "local_affine"])
@pytest.mark.parametrize("rule", ["absdot", "equal", "cls", "none"])
@pytest.mark.parametrize("depth", [1, 2])
def test_mixtures_of_targets_are_those_of_their_vectors(rule, depth, feed_forward):
    parts, hidden, states = [layer(norm_first=False) for _ in range(depth)], torch.randn(1, 6, 8).double(), None
    for place, part in enumerate(parts):
        trace = trace_layer(part, hidden, torch.randn(1, 4, 6, 6).double().softmax(-1))
        frozen = freeze_layer(part, trace, ALL, is_first=place == 0, feed_forward=feed_forward)
        if states is None:
            attended = [frozen.attend_to_tokens(slice(first, first + 2)) for first in (0, 2, 4)]
        else:
            attended = [frozen.attend(chunk) for chunk in states.chunks()]
        states, hidden = decompose_layer(frozen, list(attended), rule), trace.output
    weights = torch.randn(3, 6).double()
    found = torch.cat(read_layer(frozen, attended, rule, weights), dim=1)
    wanted = torch.einsum("wr,rsd->wsd", weights, torch.cat(list(states.chunks()), dim=1))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rule", [*RULES, "none"])
def test_vectors_are_the_same_where_no_graph_keeps_their_memory(stack, rule):
    wanted = decomposed(*stack, rule)
    with torch.no_grad():
        found = decomposed(*stack, rule, scratch=torch.empty(6 * 2 * 64, dtype=torch.float64))
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_tangents_sum_to_the_state_too():
    part = layer(norm_first=False)
    trace = trace_layer(part, torch.randn(1, 6, 8).double(), torch.randn(1, 4, 6, 6).double().softmax(-1))
    found = decomposed([part], [trace], "absdot", feed_forward="local_affine").sum(dim=1)
    torch.testing.assert_close(found, trace.output[0], rtol=1e-10, atol=1e-10)


def test_a_gate_is_refused_another_approximation_than_its_own():
    part = layer(norm_first=True)
    trace = trace_layer(part, torch.randn(1, 6, 8).double(), torch.randn(1, 4, 6, 6).double().softmax(-1))
    with pytest.raises(ValueError, match="feed_forward is 'relu': gated layers"):
        freeze_layer(part, trace, ALL, is_first=True, feed_forward="relu")


def test_a_biased_norm_before_attention_is_refused():
    part = replace(layer(norm_first=False), norm_first=True)
    trace = trace_layer(part, torch.randn(1, 6, 8).double(), torch.randn(1, 4, 6, 6).double().softmax(-1))
    with pytest.raises(ValueError, match="norm before attention has a bias"):
        freeze_layer(part, trace, ALL, is_first=True, feed_forward="zero_origin")


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.LayerNorm(8, bias=False), RMSNorm(8)])
def test_a_frozen_norm_gives_on_its_own_states_what_the_norm_gives(norm):
    states = torch.randn(6, 8)
    frozen = freeze_norm(norm, states)
    found = frozen(states.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(found if frozen.bias is None else found + frozen.bias, norm(states))


def test_a_norm_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="BatchNorm1d is neither a LayerNorm nor an RMSNorm"):
        freeze_norm(nn.BatchNorm1d(8), torch.randn(6, 8))


VALUES = torch.tensor([-2.0, 0.0, 0.5], dtype=torch.float64)


def test_a_line_through_the_origin_meets_the_activation_and_is_its_tangent_at_zero():
    slope, intercept = linearize(torch.tanh, VALUES, "zero_origin")
    assert intercept is None
    torch.testing.assert_close(slope, torch.tensor([0.48201379, 1.0, 0.92423431], dtype=torch.float64))


def test_a_tangent_has_the_derivative_and_the_rest_as_intercept():
    # 1 - tanh(2)^2 = .0706508, 1 - tanh(.5)^2 = .7864477
    slope, intercept = linearize(torch.tanh, VALUES, "local_affine")
    torch.testing.assert_close(slope, torch.tensor([0.07065082, 1.0, 0.78644773], dtype=torch.float64))
    torch.testing.assert_close(slope * VALUES + intercept, torch.tanh(VALUES))


def test_relu_keeps_what_is_above_zero_whatever_the_activation():
    slope, intercept = linearize(F.gelu, VALUES, "relu")
    assert intercept is None and slope.tolist() == [0, 0, 1]


def test_an_activation_that_is_not_zero_at_zero_has_no_line_through_the_origin():
    with pytest.raises(ValueError, match=r"Sigmoid is 0\.5 at 0"):
        linearize(nn.Sigmoid(), VALUES, "zero_origin")


@pytest.mark.parametrize("activation", ["zero_origin", "local_affine"])
def test_outputs_of_a_head_sum_to_its_output(activation):
    head = [nn.Linear(8, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3)]
    nn.ModuleList(head).double()
    vectors = torch.randn(2, 5, 8, dtype=torch.float64)
    states = vectors.sum(dim=1)
    found = decompose_head(head, vectors, states, rule="absdot", activation=activation)
    torch.testing.assert_close(found.sum(dim=1), nn.Sequential(*head)(states))
