"""Networks and precisions with which an objective would compute wrong values."""

from typing import Any

import pytest
import torch
from torch import nn

from lightning_xai.objectives.checks import check_precision, check_twice_differentiable, check_uncompiled
from tests.conftest import tiny_classifier


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed", "32"])
def test_precisions_that_keep_float32_weights_are_allowed(precision):
    check_precision(precision)


@pytest.mark.parametrize("precision", ["16-true", "bf16-true", "64-true"])
def test_precisions_that_cast_the_weights_are_refused(precision):
    with pytest.raises(ValueError, match=f"trainer.precision is {precision}, .* set 32-true"):
        check_precision(precision)


def test_a_compiled_network_is_refused():
    check_uncompiled(nn.Linear(1, 1), "InputGradient")
    compiled: Any = torch.compile(nn.Linear(1, 1))
    with pytest.raises(ValueError, match="InputGradient differentiates the network twice.*do not compile the network"):
        check_uncompiled(compiled, "InputGradient")


def test_a_network_with_a_compiled_part_is_refused():
    network, objective = tiny_classifier("bert"), nn.Identity()
    network.transformer.bert.encoder.compile(backend="eager")
    with pytest.raises(ValueError, match=r"do not compile network\.transformer\.bert\.encoder$"):
        check_uncompiled(network, "InputGradient")
    replaced = tiny_classifier("bert")
    replaced.transformer = torch.compile(replaced.transformer, backend="eager")
    with pytest.raises(ValueError, match=r"do not compile network\.transformer$"):
        check_uncompiled(replaced, "InputGradient")
    with pytest.raises(ValueError, match="Identity differentiates the network twice"):  # compiled after construction
        check_twice_differentiable(objective, replaced)


def test_gradient_checkpointing_must_not_be_reentrant():
    network, objective = tiny_classifier("bert"), nn.Identity()
    network.transformer.gradient_checkpointing_enable({"use_reentrant": False})
    check_twice_differentiable(objective, network)
    network.transformer.gradient_checkpointing_enable({"use_reentrant": True})
    with pytest.raises(ValueError, match=r"network\.transformer.*use_reentrant=True, which Identity cannot"):
        check_twice_differentiable(objective, network)
