"""The learning rate rises during the warm-up and then falls or stays."""

import pytest
import torch

from lightning_xai.objectives.schedules import Decay, warmup_decay, warmup_decay_factor


@pytest.mark.parametrize(("step", "factor"), [(0, 0.0), (1, 0.5), (2, 1.0), (11, 0.5), (20, 0.0)])
def test_rate_rises_during_warmup_and_falls_to_zero(step, factor):
    assert warmup_decay_factor(step, num_steps=20, warmup_fraction=0.1, decay="linear") == factor


def test_constant_rate_stays_after_warmup():
    assert warmup_decay_factor(19, num_steps=20, warmup_fraction=0.1, decay="constant") == 1.0


@pytest.mark.parametrize("decay", ["linear", "constant"])
def test_scheduler_multiplies_the_base_rate_by_the_factor(decay: Decay):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=3.0)
    scheduler = warmup_decay(optimizer, num_steps=10, warmup_fraction=0.2, decay=decay)
    for step in range(10):
        factor = warmup_decay_factor(step, num_steps=10, warmup_fraction=0.2, decay=decay)
        assert scheduler.get_last_lr() == [3.0 * factor]
        optimizer.step()
        scheduler.step()
