"""Training the attention that reads tokens to agree with human rationales."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lightning_xai.functional.attention import target_rows
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.targets import gold_pairs
from lightning_xai.models.base import Classifier
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.losses import Reduction, classification_loss, evidence_loss
from lightning_xai.types import Batch


class SupervisedAttention(Objective):
    """Adds to the classification loss the divergence of the readout from uniform attention over evidence tokens.

    Only gold classes with evidence count. Evidence rows meet readout rows by class id, whatever their order.

    Args:
        weight: factor on the divergence. The published 2.5 belongs to "paper"; it is an effective 2.5 / T a class, so
            it has to be lowered for "per_code".
        reduction: "per_code" is the mean KL over pairs (document, class) with evidence, which does not depend on
            padding; "paper" divides by the padded length as well, and takes the mean over documents.

    Raises:
        ValueError: the network reads no tokens by attention, or the data has no rationales.

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, Section 4.3 (B_S, after Cheng et al. 2023).
    Differs: the authors' code pairs evidence with attention rows by position, which misaligns unsorted classes, and its
        latest version attaches no evidence, so that its loss is the plain one. Neither is reproduced.
    """

    def __init__(
        self,
        network: Classifier,
        weight: float = 2.5,
        reduction: Reduction = "paper",
        **kwargs: Any,
    ) -> None:
        super().__init__(network, **kwargs)
        require_choices({"reduction": Reduction}, {"reduction": reduction})
        if not network.readout_is_attention:
            raise ValueError(
                f"{type(network).__name__} does not read tokens by attention, so its attention cannot be supervised: "
                "use PLMCA"
            )
        if weight < 0:
            raise ValueError(f"weight is {weight}: give 0 or more")
        self.weight = weight
        self.reduction = reduction
        self._num_pairs: int | None = None  # of this epoch; None in an epoch that a resume entered halfway

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        if batch.rationale is None:
            raise ValueError("the training data has no rationales: choose a data set with evidence, or Supervised")
        output = self.network(batch.inputs)
        rationale = batch.rationale
        pairs = rationale.target_mask & gold_pairs(batch.labels, rationale.targets)
        evidence = (rationale.scores > 0) & rationale.token_mask.unsqueeze(1)
        if self._num_pairs is not None:
            self._num_pairs += int((pairs & evidence.any(dim=-1)).sum())
        classification = classification_loss(output.logits, batch.labels)
        readout = target_rows(output.readout, rationale.targets)
        attention = evidence_loss(readout, evidence, pairs, reduction=self.reduction)
        return {
            "loss": classification + self.weight * attention,
            "classification": classification,
            "attention": attention,
        }

    def on_train_epoch_start(self) -> None:
        self._num_pairs = 0  # not called for the rest of an epoch that a resume continues

    def on_train_epoch_end(self) -> None:
        if self._num_pairs is None:  # what the epoch had before the resume is not known
            return
        num_pairs = torch.tensor(float(self._num_pairs), device=self.device)
        if not self.trainer.strategy.reduce(num_pairs, reduce_op="sum"):
            raise ValueError(
                "no training example of this epoch had evidence for a gold class: check that rationales survive "
                "truncation and name the examples' own labels"
            )
