"""UNIREX, against a reference that takes one example at a time in float64."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.unirex import UNIREX
from tests.conftest import tiny_classifier
from tests.objectives.conftest import planted_batch

SIZES = (20.0, 60.0)


def unirex(network, **arguments: Any) -> Supervised:
    return Supervised(network, terms={"unirex": UNIREX(Gradient(pooling="l2"), percentages=SIZES, **arguments)})


def cross_entropy(network, ids: list[int], label: int) -> float:
    inputs = torch.tensor([ids])
    batch = replace(planted_batch().inputs[:1], index=None)
    logits = network(type(batch).of_ids(inputs.tolist(), special_ids=[])).logits[0]
    return (logits.logsumexp(0) - logits[label]).item()


def reference(network, batch, row: int, margins: tuple[float, float], *, delete: bool) -> tuple[float, float]:
    """Both losses of one text, written from their definitions with lists."""
    inputs = batch.inputs[row : row + 1].trim()
    label, ids = int(batch.labels[row]), inputs.input_ids[0].tolist()
    scores = Gradient(pooling="l2").attribute(network, inputs, torch.tensor([[label]])).scores[0, 0].abs().tolist()
    places = [t for t in range(len(ids)) if inputs.token_mask[0, t]]
    order = sorted(places, key=lambda t: -scores[t])
    fill = inputs.baseline_ids[0].tolist()

    def without(erased: list[int]) -> list[int]:
        if delete:
            return [i for t, i in enumerate(ids) if t not in erased]
        return [fill[t] if t in erased else i for t, i in enumerate(ids)]

    whole = cross_entropy(network, ids, label)
    comprehensiveness, sufficiency = [], []
    for percentage in SIZES:
        top = order[: math.ceil(percentage * len(places) / 100)]
        rest = [t for t in places if t not in top]
        comprehensiveness.append(max(-margins[0], whole - cross_entropy(network, without(top), label)) + margins[0])
        sufficiency.append(max(-margins[1], cross_entropy(network, without(rest), label) - whole) + margins[1])
    return sum(comprehensiveness) / len(SIZES), sum(sufficiency) / len(SIZES)


@pytest.mark.parametrize("removal", ["mask", "delete"])
@pytest.mark.parametrize("margins", [(1.0, 1.0), (0.02, 0.0)])
def test_value_is_that_of_the_definition_for_one_example_at_a_time(removal, margins):
    network, batch = tiny_classifier("bert", dropout=0.0).double(), planted_batch()
    options = {"comprehensiveness_margin": margins[0], "sufficiency_margin": margins[1]}
    weights = {"comprehensiveness_weight": 0.3, "sufficiency_weight": 0.7}
    objective = unirex(network, removal=removal, **options, **weights).eval()
    value = objective.term_values(batch, dict(objective.used_terms()))["unirex"]
    rows = [reference(network, batch, row, margins, delete=removal == "delete") for row in range(len(batch))]
    assert value.values.tolist() == pytest.approx([0.3 * one + 0.7 * other for one, other in rows], rel=1e-9)
    assert value.logged["comprehensiveness"].item() == pytest.approx(sum(one for one, _ in rows) / len(rows))
    assert value.logged["sufficiency"].item() == pytest.approx(sum(other for _, other in rows) / len(rows))


def test_a_loss_without_weight_costs_no_pass_and_does_not_count():
    network, batch = tiny_classifier("bert", dropout=0.0).double(), planted_batch()
    both = unirex(network, comprehensiveness_weight=1.0, sufficiency_weight=1.0).eval()
    one = unirex(network, comprehensiveness_weight=1.0, sufficiency_weight=0.0).eval()
    found = [o.term_values(batch, dict(o.used_terms()))["unirex"] for o in (both, one)]
    assert set(found[1].logged) == {"comprehensiveness"}
    assert found[1].values.mean().item() == pytest.approx(found[0].logged["comprehensiveness"].item())
    of_one, of_both = (dict(o.used_terms())["unirex"] for o in (one, both))
    assert of_one.passes(9) == of_both.passes(9) - 6.0


@pytest.mark.slow
def test_training_makes_predictions_depend_on_the_top_tokens():
    network, batch = tiny_classifier("bert", dropout=0.0), planted_batch()
    objective = unirex(network, sufficiency_weight=0.0)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    first = objective.losses(batch)["unirex"].item()
    for _ in range(30):
        optimizer.zero_grad()
        objective.losses(batch)["loss"].backward()
        optimizer.step()
    assert objective.losses(batch)["unirex"].item() < 0.7 * first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"percentages": ()}, r"percentages is \[\]"),
        ({"percentages": (0.0,)}, r"percentages is \[0.0\]"),
        ({"percentages": (100.0,)}, r"percentages is \[100.0\]"),
        ({"sufficiency_margin": -1.0}, "sufficiency_margin is -1.0"),
        ({"comprehensiveness_weight": float("nan")}, "comprehensiveness_weight is nan"),
        ({"comprehensiveness_weight": 0.0, "sufficiency_weight": 0.0}, "are 0: set at least one of them above 0"),
    ],
)
def test_number_out_of_range_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        UNIREX(Gradient(), **arguments)
