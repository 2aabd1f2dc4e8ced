"""Weights with a row for each example: rows are tuned apart from each other, and the module stays as it is."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from lightning_xai.models.scorer.tuned_rows import LowRankRows, StackedRows


def rows_of(kind: str, layer: nn.Module):
    names = ["weight", "bias"]
    return StackedRows(layer, names, 3) if kind == "stacked" else LowRankRows(layer, names, 3, rank=2)


@pytest.mark.parametrize("kind", ["stacked", "low rank"])
def test_rows_start_as_the_module_and_an_example_moves_only_its_own(kind):
    layer, inputs = nn.Linear(4, 2), torch.randn(3, 4)
    before = {name: parameter.clone() for name, parameter in layer.named_parameters()}
    rows = rows_of(kind, layer)
    optimizer = torch.optim.AdamW(rows.leaves, lr=0.1, weight_decay=0.0)
    outputs = [functional_call(layer, weights, (inputs[row],)) for row, weights in enumerate(rows.weights())]
    torch.testing.assert_close(torch.stack(outputs), layer(inputs))
    outputs[1].sum().backward()  # only the second example
    optimizer.step()
    changed = [{name: bool((value != before[name]).any()) for name, value in w.items()} for w in rows.weights()]
    assert [any(row.values()) for row in changed] == [False, True, False]
    assert all(torch.equal(parameter, before[name]) for name, parameter in layer.named_parameters())


@pytest.mark.parametrize("kind", ["stacked", "low rank"])
def test_rows_tuned_together_end_as_each_tuned_alone(kind):
    layer, inputs = nn.Linear(4, 2).double(), torch.randn(3, 4, dtype=torch.float64)

    def tuned(examples: list[int]) -> dict[int, torch.Tensor]:
        rows = rows_of(kind, layer)
        optimizer = torch.optim.AdamW(rows.leaves, lr=0.1, weight_decay=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            weights = rows.weights()
            torch.stack(
                [functional_call(layer, weights[e], (inputs[e],)).square().sum() for e in examples]
            ).sum().backward()
            optimizer.step()
        return {e: rows.weights()[e]["weight"].detach() for e in examples}

    together = tuned([0, 1, 2])
    for example in range(3):
        torch.testing.assert_close(tuned([example])[example], together[example])


def test_only_matrices_get_a_low_rank_change():
    assert set(rows_of("low rank", nn.Linear(4, 2)).weights()[0]) == {"weight"}


def test_a_rank_below_one_is_refused():
    with pytest.raises(ValueError, match="the rank is 0: give a rank of at least 1"):
        LowRankRows(nn.Linear(4, 2), ["weight"], 1, rank=0)
