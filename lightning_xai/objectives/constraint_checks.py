"""Names the constrained losses, and checks the arguments of Constrained."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping

from lightning_xai.objectives.dual_ascent import Constraint
from lightning_xai.objectives.terms.base import Term
from lightning_xai.objectives.terms.weights import is_ever_active
from lightning_xai.runs.splits import VALIDATION, log_prefix

TASK = "task"  # name of the constraint on the objective's own loss


def check_constraints(
    constraints: Mapping[str, Constraint], terms: Mapping[str, Term], task_weight: float = 1.0
) -> None:
    """Raises ValueError if constraints do not match the terms and the weights.

    Constraints must exist, must name terms or the own loss, and replace weights, so a loss with a constraint must not
    have a weight other than its default. A loss without a constraint must be minimized.

    Example:
        >>> check_constraints({"guidance": Constraint(0.1)}, {})
        Traceback (most recent call last):
        ValueError: constraints refer to a term 'guidance', but there is no such term: choose one of task
    """
    if not constraints:
        raise ValueError("there are no constraints: give the name of a term and its bound, or use Supervised")
    known = [*terms, TASK]
    for name in constraints:
        if name not in known:
            raise ValueError(
                f"constraints refer to a term {name!r}, but there is no such term: choose one of {', '.join(known)}"
            )
    for name, term in terms.items():
        default = inspect.signature(type(term)).parameters.get("weight")
        if name in constraints and term.weight != (1.0 if default is None else default.default):
            raise ValueError(
                f"the term {name} has the weight {term.weight}, but also a constraint, whose multiplier alpha replaces "
                "the weight: leave out the weight or the constraint"
            )
    if TASK in constraints and task_weight != 1:
        raise ValueError(
            f"task_weight is {task_weight}, but the own loss has a constraint, whose multiplier alpha replaces the "
            "weight: leave out task_weight or the constraint"
        )
    minimizes_own_loss = task_weight > 0 and TASK not in constraints
    if not minimizes_own_loss and not any(
        is_ever_active(terms[name].weight) for name in terms if name not in constraints
    ):
        raise ValueError(
            f"nothing is minimized besides the losses with a constraint ({', '.join(constraints)}): set task_weight "
            "above 0, or add a term with a weight above 0 and without a constraint"
        )


def check_numbers(
    accumulate_grad_batches: int, gradient_clip_val: float | None, bound_seeds: int, bound_margin: float
) -> None:
    """Raises ValueError if a number is out of range.

    Example:
        >>> check_numbers(1, None, bound_seeds=3, bound_margin=0.9)
        Traceback (most recent call last):
        ValueError: bound_margin is 0.9: give a finite number, at least 1
    """
    for name, number in {"accumulate_grad_batches": accumulate_grad_batches, "bound_seeds": bound_seeds}.items():
        if number < 1:
            raise ValueError(f"{name} is {number}: give at least 1")
    if gradient_clip_val is not None and not 0 < gradient_clip_val < math.inf:
        raise ValueError(f"gradient_clip_val is {gradient_clip_val}: give a finite number above 0, or null")
    if not 1 <= bound_margin < math.inf:
        raise ValueError(f"bound_margin is {bound_margin}: give a finite number, at least 1")


def logged_name(constraint: str) -> str:
    """Returns the tag under which a constrained loss is logged in validation.

    Example:
        >>> logged_name("guidance"), logged_name("task")
        ('val/guidance', 'val/log_loss')
    """
    return f"{log_prefix(VALIDATION)}/{'log_loss' if constraint == TASK else constraint}"
