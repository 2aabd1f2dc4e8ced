"""Computes several terms on a batch.

The terms share the clean pass (the forward pass over the unchanged inputs). No term affects another's random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from lightning_xai.functional.own_parts import require_type
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.objectives.terms.base import CleanPass, Task, Term, TermValue


def needs_of(terms: Mapping[str, Term], network: Classifier, own_needs: Needs) -> Needs:
    """Returns what all terms and the objective itself (`own_needs`) together need from the clean pass.

    The clean pass is the network's forward pass over the unchanged inputs.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.terms.input_gradient import InputGradient
        >>> needs_of({"igr": InputGradient()}, random_bert(), Needs()).double_backward
        True
    """
    return reduce(Needs.__or__, [term.needs(network) for term in terms.values()], own_needs)


def prepare_all(terms: Mapping[str, Term], task: Task) -> dict[str, Any]:
    """Returns name -> result of the term's `prepare`, such as the result of a search, a detached target, or None.

    Example:
        >>> import torch
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.objectives.terms.input_gradient import InputGradient
        >>> from lightning_xai.types import Batch, TextInputs
        >>> task = Supervised(random_bert()).task(Batch(TextInputs.of_ids([[1, 5, 2]]), torch.tensor([0])))
        >>> prepare_all({"igr": InputGradient()}, task)
        {'igr': None}
    """
    return {name: term.prepare(task) for name, term in terms.items()}


def term_values(terms: Mapping[str, Term], clean: CleanPass, prepared: Mapping[str, Any]) -> dict[str, TermValue]:
    """Returns name -> value of each term.

    Before each term, the random generators are set to their state just after the clean pass (the forward pass over the
    unchanged inputs).

    Args:
        terms: name -> term.
        clean: the clean pass, with everything that the terms need (`needs_of`).
        prepared: the result of `prepare_all`.

    Raises:
        ValueError: a term's `value` returned no TermValue.

    Example:
        >>> import torch
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.objectives.terms.input_gradient import InputGradient
        >>> from lightning_xai.types import Batch, TextInputs
        >>> task = Supervised(random_bert()).task(Batch(TextInputs.of_ids([[1, 5, 2]]), torch.tensor([0])))
        >>> terms = {"igr": InputGradient()}
        >>> clean = CleanPass(task, needs_of(terms, task.network, Needs()), create_graph=False)
        >>> term_values(terms, clean, prepare_all(terms, task))["igr"].values.shape
        torch.Size([1])
    """
    values = {}
    for name, term in terms.items():
        clean.state_after.restore()  # so that no term changes the random numbers of another
        values[name] = term.value(clean, prepared[name])
        remedy = "return TermValue(values), with values of shape [B]"
        require_type(values[name], TermValue, f"{type(term).__name__}.value", remedy)
    return values
