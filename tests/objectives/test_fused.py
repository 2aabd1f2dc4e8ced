"""The fused kernel gives the steps of the usual loop, and arguments of the optimizer have priority."""

import copy
from typing import Any

import pytest
import torch
from torch.optim import SGD, Adam, AdamW

from lightning_xai.objectives.fused import use_fused_kernel
from lightning_xai.objectives.supervised import Supervised
from tests.conftest import tiny_classifier


def weights(seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(3, 2, generator=generator, dtype=torch.double).requires_grad_() for _ in range(2)]


def take_steps(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor], num_steps: int) -> None:
    for step in range(num_steps):
        optimizer.zero_grad()
        sum((p - step).pow(4).sum() for p in parameters).backward()  # type: ignore[union-attr]
        optimizer.step()


@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_fused_steps_equal_the_steps_of_the_loop(kind):
    looped, fused = weights(), weights()
    plain = kind([{"params": looped[:1]}, {"params": looped[1:], "lr": 0.02}], lr=0.1, weight_decay=0.3, foreach=False)
    quick = kind([{"params": fused[:1]}, {"params": fused[1:], "lr": 0.02}], lr=0.1, weight_decay=0.3)
    use_fused_kernel(quick)
    assert [group["fused"] for group in quick.param_groups] == [True, True]
    take_steps(plain, looped, 5)
    take_steps(quick, fused, 5)
    torch.testing.assert_close(fused, looped, rtol=1e-12, atol=0)


def test_a_stored_state_continues_with_the_same_steps():
    whole, parts = weights(), weights()
    optimizer = AdamW(whole, lr=0.1)
    use_fused_kernel(optimizer)
    take_steps(optimizer, whole, 3)
    first = AdamW(parts, lr=0.1)
    use_fused_kernel(first)
    take_steps(first, parts, 3)
    state = copy.deepcopy(first.state_dict())
    second = AdamW(parts, lr=0.1)
    use_fused_kernel(second)
    second.load_state_dict(state)
    take_steps(optimizer, whole, 2)
    take_steps(second, parts, 2)
    torch.testing.assert_close(parts, whole, rtol=0, atol=0)


@pytest.mark.parametrize("chosen", ["foreach", "capturable", "differentiable"])
def test_an_argument_that_chooses_the_kernel_has_priority(chosen):
    arguments: dict[str, Any] = {chosen: True}
    optimizer = AdamW(weights(), **arguments)
    use_fused_kernel(optimizer)
    assert not optimizer.param_groups[0]["fused"]


def test_fused_false_and_other_optimizers_are_left_alone():
    refused = AdamW(weights(), fused=False)
    use_fused_kernel(refused)
    assert refused.param_groups[0]["fused"] is False
    sgd = SGD(weights(), lr=0.1)
    before = copy.deepcopy(sgd.state_dict())
    use_fused_kernel(sgd)
    assert sgd.state_dict() == before


def test_an_objective_trains_with_the_fused_kernel():
    class Steps:
        estimated_stepping_batches = 10

    objective = Supervised(tiny_classifier("bert"))
    objective._trainer = Steps()  # type: ignore[assignment]
    configured: Any = objective.configure_optimizers()
    optimizer = configured["optimizer"]
    assert all(group["fused"] for group in optimizer.param_groups)


def test_a_fused_step_raises_the_version_of_the_weights():
    parameters = weights()
    optimizer = AdamW(parameters, lr=0.1)
    use_fused_kernel(optimizer)
    before = [weight._version for weight in parameters]
    take_steps(optimizer, parameters, 1)
    assert all(weight._version > version for weight, version in zip(parameters, before, strict=True))
