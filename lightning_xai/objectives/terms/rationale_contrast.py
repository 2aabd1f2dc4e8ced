"""A term that trains a network so that a rationale supports the gold class more than the rest of the text does."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from lightning_xai.functional.erasure.erase import erase
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.objectives.terms.base import CleanPass, Term, TermValue
from lightning_xai.objectives.terms.guided_rows import GuidedRows, guided_rows
from lightning_xai.objectives.terms.rationale_check import require_evidence
from lightning_xai.types import Batch


def contrast(rationale: Tensor, rest: Tensor) -> Tensor:
    """Returns -log(e^r / (e^r + e^s)) [B] in nats, where r and s are the logits for the rationale and for the rest.

    Example:
        >>> contrast(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0]))
        tensor([0.6931, 0.1269])
    """
    return torch.nn.functional.softplus(rest - rationale)


class RationaleContrast(Term):
    """The contrast between two logits of the gold class: for the human rationale alone, and for the rest of the text.

    For the first logit, the fill token replaces all tokens outside the rationale; for the second, it replaces the
    rationale. Special tokens are never replaced. Texts without evidence for their class are left out. The paper
    compares networks trained with different factors of the classification loss (`task_weight`) and of this term
    (`weight`).

    Args:
        **kwargs: arguments of `Term`.

    Raises:
        ValueError: the network is multi-label. The objective's `setup` raises it if no training text has evidence.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.types import Attribution, TextInputs
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
        >>> rationale = Attribution.of_scores([[[0.0, 1.0, 0.0, 0.0]]], inputs.token_mask)
        >>> objective = Supervised(random_bert(), terms={"contrast": RationaleContrast()})
        >>> bool(objective.losses(Batch(inputs, torch.tensor([0]), rationale))["contrast"] > 0)
        True

    Reference: Resck, Raimundo, Poco (2024), "Exploring the Trade-off Between Model Performance and Explanation
        Plausibility of Text Classifiers Using Human Rationales", arXiv 2404.03098.
    """

    measured = True
    suits_multilabel: ClassVar[bool] = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def check_data(self, data: Any) -> None:
        require_evidence(data, "RationaleContrast")

    def needs(self, network: Classifier) -> Needs:
        return Needs(readout=False)

    def passes(self, num_tokens: int) -> float:
        return 6.0  # two forward passes and their backward passes

    def example_weights(self, batch: Batch) -> Tensor:
        return self._rows(batch).mask.any(dim=1).float()

    def value(self, clean: CleanPass, prepared: None) -> TermValue:
        rows = self._rows(clean.task.batch)
        evidence = rows.evidence.any(dim=1)  # [B, T]
        sides = []
        for keep in (evidence, ~evidence):
            fewer, _ = erase(clean.inputs, keep, "mask")
            logits = clean.again(fewer, output_readout=False).logits
            sides.append(logits.gather(1, rows.targets).squeeze(1))
        rationale, rest = sides
        return TermValue(contrast(rationale, rest), {"margin": (rationale - rest).detach().mean()})

    @staticmethod
    def _rows(batch: Batch) -> GuidedRows:
        return guided_rows(batch, unannotated="leave_out")
