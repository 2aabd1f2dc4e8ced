"""Checks that the training data have evidence, for the terms that need it."""

from __future__ import annotations

from typing import Any

from lightning_xai.objectives.expected_weight import examples
from lightning_xai.objectives.terms.guided_rows import guided_rows


def require_evidence(data: Any, owner: str) -> None:
    """Checks that at least one training text has evidence for a gold class. Does nothing without a data module.

    Args:
        data: the data module of the fit, or None.
        owner: name of the term, for the error message.

    Raises:
        ValueError: the data have no rationales for gold classes, or truncation removed them.

    Example:
        >>> require_evidence(None, "ExplanationGuidance")
    """
    if not (hasattr(data, "split") and hasattr(data, "collate")):
        return
    cut = False
    for batch in examples(data):
        if batch.rationale is None:
            break
        if guided_rows(batch, unannotated="leave_out").mask.any():
            return
        cut = cut or (batch.evidence_cut is not None and bool(batch.evidence_cut.any()))
    if cut:
        raise ValueError(
            "truncation removed the rationales of all training texts: raise the encoder's max_length, or choose "
            "texts whose evidence comes earlier"
        )
    raise ValueError(
        f"the training data have no rationales for gold classes, but {owner} needs them: use data with evidence, such "
        "as data/vader.yaml, or leave out this term"
    )
