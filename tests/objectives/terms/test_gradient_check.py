"""The check of a term's gradient on a trial batch: which examples it takes."""

from typing import Any

import pytest
import torch

from lightning_xai.objectives.terms import gradient_check
from lightning_xai.objectives.terms.base import TermValue
from lightning_xai.objectives.terms.gradient_check import ZeroGradient, try_term
from tests.objectives.conftest import planted_batch


class FirstTwo:
    """Stands for a term in which only the first two examples of a batch have a weight above 0."""

    def example_weights(self, batch: Any) -> torch.Tensor:
        return (torch.arange(len(batch)) < 2).float()


@pytest.mark.parametrize(("further", "expected"), [(0, [1]), (5, [1, 2])])
def test_a_zero_gradient_is_tried_again_on_further_examples_if_there_are_any(further, expected, monkeypatch):
    layer, tried = torch.nn.Linear(1, 1), []

    def values_of(part: Any) -> dict[str, TermValue]:
        tried.append(len(part))
        return {"flat": TermValue(0 * layer(torch.zeros(len(part), 1)).squeeze(1), {})}

    batch = planted_batch()
    monkeypatch.setattr(gradient_check, "first_batch", lambda data: batch[:further])
    term: Any = FirstTwo()
    with pytest.raises(ZeroGradient):
        try_term(term, values_of, batch, None, layer)
    assert tried == expected
