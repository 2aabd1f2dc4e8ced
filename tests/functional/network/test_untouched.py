import random

import numpy as np
import pytest
import torch
from torch import nn

from lightning_xai.functional.network.untouched import (
    attributes_kept,
    network_kept,
    random_states_kept,
    weight_checksums,
)


def test_all_generators_continue_from_their_states():
    def drawn():
        return random.random(), float(np.random.rand()), float(torch.rand(1))

    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    expected = drawn()
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    with random_states_kept():
        drawn()
        torch.manual_seed(7), np.random.seed(7), random.seed(7)
    assert drawn() == expected
    assert torch.initial_seed() == 1


def test_network_is_as_before_also_after_an_error():
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout())
    network[0].weight.grad = gradient = torch.ones(2, 2)
    kept = network[0].register_forward_hook(lambda *_: None)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    try:
        with network_kept(network):
            assert network[0].weight.grad is None
            network(torch.rand(4, 2)).sum().backward()
            network[0].weight.requires_grad_(False)
            network[2].eval()
            network[1].register_forward_hook(lambda *_: None)
            network[1].register_forward_pre_hook(lambda *_: None)
            kept.remove()
            raise KeyError
    except KeyError:
        pass
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert network[0].weight.grad is gradient and network[0].bias.grad is None
    assert network[0].weight.requires_grad and network[2].training
    assert len(network[0]._forward_hooks) == 1
    assert not network[1]._forward_hooks and not network[1]._forward_pre_hooks


def test_new_changed_and_deleted_attributes_are_as_before():
    class Plain:
        def __init__(self):
            self.changed, self.deleted = 1, 2

    instance = Plain()
    with attributes_kept(instance):
        instance.changed = 5
        vars(instance)["new"] = 6
        del instance.deleted
    assert vars(instance) == {"changed": 1, "deleted": 2}


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.bfloat16, torch.float32, torch.float64, torch.cfloat])
def test_checksum_of_any_length_and_place_changes_with_every_value(dtype):
    network = nn.Module()
    for length in (0, 1, 7, 8, 11):
        for offset in (0, 1):
            network.values = nn.Buffer(torch.zeros(length + 1).to(dtype)[offset:])
            before = weight_checksums(network)
            for value in network.values:  # a view of each value
                value.fill_(1)
                assert weight_checksums(network) != before
                value.fill_(0)
            assert weight_checksums(network) == before
