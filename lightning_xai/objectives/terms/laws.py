"""The laws: properties that every term must have. `check_term` checks them for terms of any package.

The checks use texts with a planted solution: one token determines the label, and is the rationale.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from lightning_xai.functional.laws import require, with_padding
from lightning_xai.functional.network.untouched import random_states_kept
from lightning_xai.functional.own_parts import require_maker, require_object
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.objectives import laws
from lightning_xai.objectives.laws import NUM_CLASSES, planted_batch, tiny_plm_ca
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.base import CleanPass, Term, TermValue
from lightning_xai.runs.progress import quiet
from lightning_xai.types import Batch

MakeTerm = Callable[[], Term]


def check_term(make: MakeTerm) -> None:
    """Checks a term against the laws: properties that all terms of this package have.

    Args:
        make: function that builds the term: the term's class, or, for example, `lambda: MyTerm(weight=0.5)`. The term
            is added to `Supervised` for a tiny PLM-CA, and computed on texts with rationales.

    Raises:
        ValueError: a law is broken; the message names the law and the remedy.

    Example:
        >>> class Constant(Term):
        ...     def value(self, clean, prepared):
        ...         return TermValue(clean.losses.detach())
        >>> check_term(Constant)
        Traceback (most recent call last):
        ValueError: term Constant: its gradient reaches no trainable weight: do not detach values or freeze all weights
    """
    require_maker(make, Term)
    with quiet(), warnings.catch_warnings(), random_states_kept():
        warnings.simplefilter("ignore")
        require_object(make(), Term)
        for law in LAWS:
            law(make)
    laws.check_objective(
        lambda network: Supervised(network, terms={"checked": make()}), multilabel=make().suits_multilabel
    )


def gradient_trains_the_network(make: MakeTerm) -> None:
    """The term has one value per example. Its gradient with respect to the network's weights is finite and not 0."""
    term = make()
    objective = _objective(term)
    objective.try_terms(_batch(term))
    values = _values(objective, _batch(term))
    require(values.shape == (6,), f"{_name(term)}: values have shape {list(values.shape)} for 6 examples", "return [B]")


def values_depend_on_their_own_example_alone(make: MakeTerm) -> None:
    """If `independent_of_batch` is True, other examples and padding do not change an example's value."""
    term = make()
    if not term.independent_of_batch:
        return
    objective, batch = _objective(term), _batch(term)
    together = _values(objective, batch)
    alone = torch.cat([_values(objective, batch[row : row + 1]) for row in range(len(batch))])
    padded = _values(objective, with_padding(batch, 3))
    remedy = "compute each value from one example and its attention mask, or set `independent_of_batch` to False"
    for name, other in {"padding": padded, "other examples": alone}.items():
        same = torch.allclose(together, other, rtol=1e-6, atol=1e-9)
        require(same, f"{_name(term)}: due to {name}, the values change from {together} to {other}", remedy)


def accumulated_micro_batches_give_the_gradient_of_their_union(make: MakeTerm) -> None:
    """If `independent_of_batch` is True, the gradient for a batch is the mean of those for its two halves."""
    term = make()
    if not term.independent_of_batch:
        return
    objective, batch = _objective(term), _batch(term)
    objective.expected_weights["checked"] = float(term.example_weights(batch).mean())
    weight = objective.network.encoder_layers()[0].value.weight

    def gradient(part: Batch) -> Tensor:
        return torch.autograd.grad(objective.losses(part)["loss"], weight)[0]

    halves = (gradient(batch[:3]) + gradient(batch[3:])) / 2
    same = torch.allclose(gradient(batch), halves, rtol=1e-6, atol=1e-10)
    rule = f"{_name(term)}: two micro-batches of 3 examples have another gradient than one micro-batch of 6"
    require(same, rule, "return a value for each example, and let `example_weights` say which examples count")


def other_terms_keep_their_numbers(make: MakeTerm) -> None:
    """In train mode with dropout, adding a term changes neither the objective's own loss nor the terms after it.

    Two objectives are compared: one with only the term `_SecondPass`, and one with the checked term before
    `_SecondPass`. Both use eager attention, because `_SecondPass` requests it.
    """
    checked = make()
    batch = _batch(checked)

    def losses(**terms: Term) -> dict[str, Tensor]:
        torch.manual_seed(3)
        objective = Supervised(tiny_plm_ca(multilabel=checked.suits_multilabel), terms=terms).train()
        torch.manual_seed(5)
        return objective.losses(batch)

    alone, both = losses(second=_SecondPass()), losses(checked=checked, second=_SecondPass())
    same = all(torch.allclose(alone[key], both[key], rtol=1e-5) for key in ("classification", "second"))
    remedy = "seed random numbers by `Task.seed` and the examples' indices, and use eval mode only in `prepare`"
    require(same, f"{_name(checked)}: it changes the objective's own loss or the terms after it", remedy)


LAWS = (
    gradient_trains_the_network,
    values_depend_on_their_own_example_alone,
    accumulated_micro_batches_give_the_gradient_of_their_union,
    other_terms_keep_their_numbers,
)


class _SecondPass(Term):
    """The loss of a second forward pass, which draws new dropout masks, with eager attention."""

    def needs(self, network: Classifier) -> Needs:
        return Needs(own_attentions=True)

    def value(self, clean: CleanPass, prepared: None) -> TermValue:
        return TermValue(clean.task.losses(clean.again(clean.inputs).logits))


def _batch(term: Term) -> Batch:
    return planted_batch(num_classes=NUM_CLASSES, multilabel=term.suits_multilabel)


def _name(term: Term) -> str:
    return f"term {type(term).__name__}"


def _objective(term: Term) -> Supervised:
    """Returns Supervised on a tiny network in float64 without dropout. The term has the name "checked" there."""
    network = tiny_plm_ca(multilabel=term.suits_multilabel, dropout=0.0).double()
    objective = Supervised(network, terms={"checked": term})
    return objective.train()


def _values(objective: Supervised, batch: Batch) -> Tensor:
    term = objective.terms["checked"]
    assert isinstance(term, Term)
    return objective.term_values(batch, {"checked": term})["checked"].values.detach()
