"""Two forward passes draw the same dropout masks if the state of the generators is restored between them."""

import torch
from torch import nn

from lightning_xai.functional.network.generator_state import GeneratorState


def test_a_restored_state_draws_the_same_dropout_mask_again():
    dropout, ones = nn.Dropout(0.5), torch.ones(1000)
    state = GeneratorState.now(torch.device("cpu"))
    first, second = dropout(ones), dropout(ones)
    state.restore()
    assert torch.equal(dropout(ones), first) and not torch.equal(second, first)


def test_a_state_can_be_restored_more_than_once():
    state = GeneratorState.now(torch.device("cpu"))
    drawn = []
    for _ in range(3):
        state.restore()
        drawn.append(float(torch.rand(())))
    assert len(set(drawn)) == 1
