"""Tracked tensors under rules that change nothing give what ordinary tensors give."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from lightning_xai.functional.propagation.tracked import (
    Rules,
    Tracked,
    function_name,
    replace_tracked,
    track,
    tracked_in,
    writes_in_place,
)
from tests.conftest import text_inputs, tiny_classifier


class OrdinaryRules(Rules):
    """Rules that change no function, and keep the names of the functions that were called."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, func: Callable, name: str, tracked: list[Tracked], args: tuple, kwargs: dict) -> Any:
        self.names.append(name)
        result = func(*replace_tracked(args, Tracked.plain), **replace_tracked(kwargs, Tracked.plain))
        return self.wrap(result)


@pytest.mark.parametrize("kind", ["bert", "modernbert", "llama", "plm_ca"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_network_on_tracked_embeddings_has_its_logits_and_its_derivatives(kind: str, attention: str) -> None:
    model, inputs = tiny_classifier(kind).double(), text_inputs([6, 9])
    model.set_attention(attention)
    embeds = model.embed(inputs).detach()
    leaf, tracked_leaf = embeds.clone().requires_grad_(), embeds.clone().requires_grad_()
    logits = model(inputs, leaf).logits
    tracked = model(inputs, track(tracked_leaf, OrdinaryRules())).logits
    assert isinstance(tracked, Tracked)
    torch.testing.assert_close(tracked.plain(), logits, rtol=0, atol=0)
    (wanted,), (derivative,) = (
        torch.autograd.grad(values.square().sum(), of)
        for values, of in ((logits, leaf), (tracked.plain(), tracked_leaf))
    )
    torch.testing.assert_close(derivative, wanted, rtol=1e-12, atol=1e-12)


def test_rules_see_every_function_of_the_states_by_its_name() -> None:
    rules = OrdinaryRules()
    states = track(torch.ones(2, 3), rules)
    F.gelu(2 * states).softmax(-1).view(-1)[0]
    assert rules.names == ["mul", "gelu", "softmax", "view", "getitem"]


def test_shapes_types_and_constants_need_no_rule() -> None:
    rules = OrdinaryRules()
    states = track(torch.ones(2, 3), rules)
    assert states.shape == (2, 3) and states.dtype is torch.float32 and len(states) == 2
    states.new_zeros(2)
    assert rules.names == []


def test_a_tracked_tensor_is_in_the_graph_of_the_tensor() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    track(x, OrdinaryRules()).plain().sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1]


@pytest.mark.parametrize(
    "function, name",
    [
        (torch.Tensor.__rmul__, "mul"),
        (vars(torch._C.TensorBase)["shape"].__get__, "shape"),
        (torch.Tensor.add_, "add_"),
    ],
)
def test_functions_are_known_by_one_name(function: Callable, name: str) -> None:
    assert function_name(function) == name


def test_tracked_tensors_are_found_and_replaced_inside_containers() -> None:
    first, second = (track(torch.tensor(float(value)), OrdinaryRules()) for value in (1, 2))
    arguments = ([first, 3], {"second": second}, (torch.tensor(4.0),))
    assert [tensor.plain().item() for tensor in tracked_in(arguments)] == [1, 2]
    values = replace_tracked(arguments, lambda tensor: tensor.plain().item())
    assert values == ([1, 3], {"second": 2}, (torch.tensor(4.0),))


def test_a_second_run_is_wrapped_item_by_item() -> None:
    parts = OrdinaryRules().wrap(list(torch.tensor([1.0, 2.0])), list(torch.tensor([3.0, 4.0])), is_gate=True)
    assert [(part.plain().item(), part.second_run.item(), part.is_gate) for part in parts] == [
        (1, 3, True),
        (2, 4, True),
    ]


@pytest.mark.parametrize(
    "name, kwargs, writes",
    [("add", {}, False), ("add_", {}, True), ("setitem", {}, True), ("relu", {"inplace": True}, True)],
)
def test_functions_that_write_are_recognized(name: str, kwargs: dict, writes: bool) -> None:
    assert writes_in_place(name, (track(torch.zeros(2), OrdinaryRules()),), kwargs) == writes


def test_writing_tracked_values_into_another_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match="copy_ writes hidden states into a tensor that does not depend on them"):
        writes_in_place("copy_", (torch.zeros(2), track(torch.zeros(2), OrdinaryRules())), {})
