import torch

from lightning_xai.runs.fingerprint import weights_hash


def linear() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


def test_equal_weights_have_equal_names():
    assert weights_hash(linear()) == weights_hash(linear())
    assert len(weights_hash(linear())) == 12


def test_one_changed_weight_changes_the_name():
    changed = linear()
    with torch.no_grad():
        changed.bias[0] += 1e-6
    assert weights_hash(changed) != weights_hash(linear())


def test_gradients_and_mode_do_not_matter():
    other = linear().eval().requires_grad_(False)
    assert weights_hash(other) == weights_hash(linear())


def test_half_precision_and_buffers_are_read():
    assert len(weights_hash(torch.nn.BatchNorm1d(2).bfloat16())) == 12
