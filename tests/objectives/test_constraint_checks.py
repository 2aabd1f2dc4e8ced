"""Refusals of Constrained: constraints that do not match the terms, numbers out of range, scaled gradients."""

from typing import Any

import pytest
from lightning import Trainer

from lightning_xai.objectives.constrained import Constrained
from lightning_xai.objectives.dual_ascent import Constraint
from lightning_xai.objectives.terms.base import Term, TermValue
from tests.conftest import tiny_classifier
from tests.objectives.conftest import loader, quiet_trainer

DATA: dict[str, Any] = {"num_classes": 5, "multilabel": True}


class LogitSize(Term):
    def value(self, clean, prepared):
        return TermValue(clean.output.logits.square().mean(dim=1))


def constrained(**arguments: Any) -> Constrained:
    return Constrained(tiny_classifier("plm_ca"), {"size": Constraint(0.5)}, {"size": LogitSize()}, **arguments)


@pytest.mark.parametrize(
    ("constraints", "terms", "message"),
    [
        ({}, {}, "there are no constraints"),
        (
            {"sise": Constraint(1.0)},
            {"size": LogitSize()},
            "constraints refer to a term 'sise'.*choose one of size, task",
        ),
        ({"size": Constraint(1.0)}, {"size": LogitSize(weight=0.5)}, "size has the weight 0.5, but also a constraint"),
    ],
)
def test_constraints_that_make_no_sense_are_refused(constraints, terms, message, tiny_plm_ca):
    with pytest.raises(ValueError, match=message):
        Constrained(tiny_plm_ca, constraints, terms)


@pytest.mark.parametrize(
    ("constraints", "terms", "task_weight", "message"),
    [
        ({"task": Constraint(1.0)}, {}, 1.0, "nothing is minimized besides .*task.: set task_weight above 0"),
        ({"task": Constraint(1.0)}, {"size": LogitSize(weight=0.0)}, 1.0, "nothing is minimized besides"),
        ({"task": Constraint(1.0), "size": Constraint(1.0)}, {"size": LogitSize()}, 1.0, "besides .*task, size."),
        ({"size": Constraint(1.0)}, {"size": LogitSize()}, 0.0, "nothing is minimized besides"),
        (
            {"task": Constraint(1.0)},
            {"size": LogitSize()},
            0.5,
            "task_weight is 0.5, but the own loss has a constraint",
        ),
    ],
)
def test_constraints_without_a_loss_to_minimize_or_with_a_weight_without_effect_are_refused(
    constraints, terms, task_weight, message, tiny_plm_ca
):
    with pytest.raises(ValueError, match=message):
        Constrained(tiny_plm_ca, constraints, terms, task_weight=task_weight)


@pytest.mark.parametrize(
    "arguments",
    [
        {"accumulate_grad_batches": 0}, {"averaging": 1.0},
        *({"gradient_clip_val": value} for value in (0.0, -1.0, float("nan"), float("inf"))),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        constrained(**arguments)


@pytest.mark.parametrize("only", [None, "size"])
def test_scaled_gradients_are_refused(only, tmp_path, monkeypatch):
    # Lightning gives this precision for 16, "16" and "16-mixed"; on a processor, it replaces it by bf16-mixed
    monkeypatch.setattr(Trainer, "precision", property(lambda _: "16-mixed"))
    with pytest.raises(ValueError, match="precision is 16-mixed, which scales gradients, but Constrained needs"):
        quiet_trainer(tmp_path, max_epochs=1).fit(constrained(only=only), loader(1, **DATA), loader(1, **DATA))


@pytest.mark.parametrize("margin", [0.9, float("inf"), float("nan")])
def test_margin_below_one_or_not_finite_is_refused(margin):
    with pytest.raises(ValueError, match=f"bound_margin is {margin}: give a finite number, at least 1"):
        Constrained(tiny_classifier("bert"), {"size": Constraint("auto")}, {"size": LogitSize()}, bound_margin=margin)
