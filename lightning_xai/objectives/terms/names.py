"""Checks the names of terms, and describes terms in one line."""

from __future__ import annotations

from collections.abc import Iterable

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
        if name in OWN_NAMES | MULTILABEL_NAMES | SINGLE_LABEL_NAMES or hasattr(nn.ModuleDict, name):
            raise ValueError(
                f"a term is named {name!r}, which the logs or torch use already: choose another name, such as my_{name}"
            )


def label_of(term: Term) -> str:
    """Returns the name of a term's class, followed by the text that the term's `describe` returns, if any.

    Example:
        >>> from lightning_xai.objectives.terms.vat import VAT
        >>> label_of(VAT())
        'VAT'
    """
    return ": ".join(part for part in (type(term).__name__, term.describe()) if part)
