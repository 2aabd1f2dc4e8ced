"""Overridden outputs and restored modes."""

import pytest
import torch
from torch import nn

from lightning_xai.functional.network.modes import call_with_known_arguments, evaluation_mode, frozen, override_output

MASK = torch.tensor([[0, 1, 1, 0, 1], [1, 1, 1, 1, 1]], dtype=torch.bool)


def test_an_overridden_output_keeps_the_true_output_at_padding():
    module, inputs = nn.Linear(1, 1), torch.ones(2, 5, 1)
    unchanged = module(inputs)
    with override_output(module, torch.full((2, 5, 1), 7.0), MASK):
        changed = module(inputs)
    assert torch.equal(changed, torch.where(MASK.unsqueeze(-1), 7.0, unchanged))
    assert torch.equal(module(inputs), unchanged)


def test_an_override_ends_when_the_context_raises():
    module = nn.Linear(1, 1)
    with pytest.raises(KeyError), override_output(module, torch.ones(2, 5, 1), MASK):
        raise KeyError
    assert not module._forward_hooks


def test_an_override_by_none_changes_nothing():
    module = nn.Linear(1, 1)
    with override_output(module, None, MASK):
        assert not module._forward_hooks


def test_only_named_and_given_arguments_are_passed():
    assert call_with_known_arguments(nn.Identity(), input=torch.tensor(3), unknown=torch.tensor(1), missing=None) == 3


def test_evaluation_mode_restores_each_part_and_the_random_state():
    module = nn.Sequential(nn.Dropout(), nn.Dropout()).train()
    module[1].eval()
    before = torch.get_rng_state()
    with evaluation_mode(module):
        assert not any(part.training for part in module.modules())
        torch.rand(1)
    assert [part.training for part in module.modules()] == [True, True, False]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("fails", [False, True])
def test_frozen_restores_every_flag_even_after_an_error(fails):
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.Linear(2, 2)).train()
    module[1].eval()
    module[2].bias.requires_grad_(False)
    try:
        with frozen(module):
            assert not module.training and not any(p.requires_grad for p in module.parameters())
            if fails:
                raise RuntimeError
    except RuntimeError:
        pass
    assert [part.training for part in module.modules()] == [True, True, False, True]
    assert [p.requires_grad for p in module.parameters()] == [True, True, True, False]


def test_frozen_keeps_autocast():
    with torch.autocast("cpu", torch.bfloat16), frozen(nn.Linear(2, 2)) as _:
        assert torch.is_autocast_enabled("cpu")
