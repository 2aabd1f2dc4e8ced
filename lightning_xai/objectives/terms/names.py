"""Checks the names of terms and that they have no parameters, and describes terms in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import nn

from lightning_xai.metrics.classification import MULTILABEL_NAMES, SINGLE_LABEL_NAMES
from lightning_xai.objectives.terms.base import Term

# names of scalars that the objectives themselves log
OWN_NAMES = frozenset(
    {"loss", "task", "classification", "distillation", "masking", "kept_fraction", "inner_steps", "alpha", "violation"}
)


def check_term_names(names: Iterable[str]) -> None:
    """Raises ValueError if a term's name is already used in logs or by torch, or is not an identifier.

    Example:
        >>> check_term_names(["igr", "guidance"])
        >>> check_term_names(["loss"])
        Traceback (most recent call last):
        ValueError: a term is named 'loss', which the logs or torch use already: choose another name, such as my_loss
    """
    for name in names:
        if not name.isidentifier():
            raise ValueError(f"a term is named {name!r}: use letters, digits and underscores, such as vat or igr_2")
        if name in OWN_NAMES | MULTILABEL_NAMES | SINGLE_LABEL_NAMES or hasattr(nn.ModuleDict(), name):
            raise ValueError(
                f"a term is named {name!r}, which the logs or torch use already: choose another name, such as my_{name}"
            )


def check_terms(terms: Mapping[str, Term]) -> None:
    """Raises ValueError if a term has a name that is not allowed, or a parameter that requires a gradient.

    Example:
        >>> from lightning_xai.objectives.terms.vat import VAT
        >>> check_terms({"vat": VAT()})
    """
    check_term_names(terms)
    for name, term in terms.items():
        for parameter in (name for name, weight in term.named_parameters() if weight.requires_grad):
            raise ValueError(
                f"the term {name} ({type(term).__name__}) has a parameter {parameter}, which no optimizer would train: "
                "register it as a buffer, or put it into the network"
            )


def label_of(term: Term) -> str:
    """Returns the name of a term's class, followed by the text that the term's `describe` returns, if any.

    Example:
        >>> from lightning_xai.objectives.terms.vat import VAT
        >>> label_of(VAT())
        'VAT'
    """
    return ": ".join(part for part in (type(term).__name__, term.describe()) if part)
