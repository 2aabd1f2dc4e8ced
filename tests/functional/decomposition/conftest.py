"""Transformer layers of both forms, built from their parts, so that no architecture is needed."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, LayerTrace, trace_layer


class RMSNorm(nn.Module):
    """The RMSNorm of Llama, which here computes in its own dtype instead of float32."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))
        self.variance_epsilon = 1e-6

    def forward(self, states: Tensor) -> Tensor:
        return self.weight * states * (states.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()


def random_layer(*, norm_first: bool) -> EncoderLayer:
    """Returns a layer in float64 with 8 values, 4 heads and 12 units; pre-norm ones have a gate and shared values."""
    norms: list[nn.Module] = [RMSNorm(8), RMSNorm(8)] if norm_first else [nn.LayerNorm(8), nn.LayerNorm(8)]
    layer = EncoderLayer(
        module=nn.Module(),
        value=nn.Linear(8, 4 if norm_first else 8),
        output=nn.Linear(8, 8),
        attention_norm=norms[0],
        up=nn.Linear(8, 12),
        activation=F.silu if norm_first else F.gelu,
        down=nn.Linear(12, 8),
        feed_forward_norm=norms[1],
        num_heads=4,
        gate=nn.Linear(8, 12, bias=False) if norm_first else None,
        norm_first=norm_first,
    )
    for part in (layer.value, layer.output, layer.up, layer.down, *norms, layer.gate):
        if part is not None:
            for parameter in part.double().parameters():
                nn.init.normal_(parameter)
    return layer


def random_trace(layer: EncoderLayer) -> LayerTrace:
    """Returns the trace of random states of 6 tokens under random attention."""
    attention = torch.randn(1, 4, 6, 6, dtype=torch.float64).softmax(-1)
    return trace_layer(layer, torch.randn(1, 6, 8, dtype=torch.float64), attention)


Stack = tuple[list[EncoderLayer], list[LayerTrace]]


@pytest.fixture(params=[False, True], ids=["post-norm", "pre-norm with a gate"])
def stack(request: pytest.FixtureRequest) -> Stack:
    """Two layers, one after the other, with their traces of 6 tokens."""
    layers = [random_layer(norm_first=request.param) for _ in range(2)]
    hidden, traces = torch.randn(1, 6, 8, dtype=torch.float64), []
    for layer in layers:
        attention = torch.randn(1, 4, 6, 6, dtype=torch.float64).softmax(-1)
        traces.append(trace_layer(layer, hidden, attention))
        hidden = traces[-1].output
    return layers, traces
