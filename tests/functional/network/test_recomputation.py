"""Layers with gradient checkpointing run again in the backward pass, unless they write into a cache."""

import pytest
import torch
from torch import nn
from transformers import DynamicCache

from lightning_xai.functional.network.recomputation import layers_recomputed


class Counted(nn.Module):
    gradient_checkpointing = True
    num_calls = 0

    def forward(self, states, memory=None):
        self.num_calls += 1
        return states.square()


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize(("memory", "num_calls"), [(None, 2), (DynamicCache(), 1)])
def test_a_layer_with_a_cache_runs_once(memory, num_calls, by_name):
    layer, states = Counted().eval(), torch.ones(2, requires_grad=True)
    with layers_recomputed(layer):
        output = layer(states, memory=memory) if by_name else layer(states, memory)
        output.sum().backward()
    assert layer.num_calls == num_calls
    assert states.grad is not None and states.grad.tolist() == [2.0, 2.0]
