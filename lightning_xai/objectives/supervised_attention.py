"""Training the readout attention to agree with human rationales."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lightning_xai.functional.attention import target_rows
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.targets import gold_pairs
from lightning_xai.models.base import Classifier
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.expected_weight import expected_weight
from lightning_xai.objectives.losses import Reduction, classification_loss, evidence_loss, evidence_weights
from lightning_xai.types import Attribution, Batch

_NO_EVIDENCE = (
    "evidence for a gold class: check that truncation leaves some evidence, and that rationales are for the examples' "
    "own labels"
)


class SupervisedAttention(Objective):
    """Minimizes the classification loss plus KL(uniform over evidence tokens || readout attention).

    Only gold classes with evidence count. The evidence of a class is compared with the attention of the same class.

    The divergence is a mean over the pairs (document, class) or over the documents with evidence. Its denominator is B
    times `expected_weight`, which is the expected number of these pairs or documents in a batch of B examples. So the
    loss does not depend on how an optimizer step is divided into micro-batches of equal size and into processes.
    Without a TextDataModule, the denominator is the number of these pairs or documents in the batch, so the loss
    depends on this division.

    Args:
        network: a classifier whose readout is attention.
        weight: factor of the divergence. The published value is 2.5, for the reduction "paper". Since "paper" divides
            by the padded length T, "per_code" needs a much smaller weight for the same effect.
        reduction: "per_code" is the mean KL over pairs (document, class) with evidence. It does not depend on
            padding. "paper" divides each document's mean KL by the padded length T, and then takes the mean over the
            documents with evidence. So the loss depends on which documents are padded together.

    Attributes:
        expected_weight: mean number of pairs with evidence ("per_code"), or share of documents with evidence ("paper"),
            in the training split; None without a TextDataModule.

    Raises:
        ValueError: the network's readout is not attention, or `weight` is negative. `setup` raises it if the training
            data have no rationales, or no rationales for gold classes.

    Example:
        >>> from lightning_xai.models.plm_ca import PLMCA
        >>> from lightning_xai.types import Attribution, TextInputs
        >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> network = PLMCA(config={"model_type": "bert", "intermediate_size": 4, **sizes}, num_classes=1).eval()
        >>> inputs = TextInputs.of_ids([[1, 5, 2]], special_ids=[1, 2])
        >>> evidence = Attribution.of_scores([[[0.0, 1.0, 0.0]]], inputs.token_mask)
        >>> objective = SupervisedAttention(network, reduction="per_code")
        >>> loss = objective.losses(Batch(inputs, torch.ones(1, 1), evidence))["attention"]
        >>> torch.allclose(loss, -network(inputs).readout[0, 0, 1].log())  # one evidence token
        True

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, Section 4.3 (B_S, after Cheng et al. 2023).
    Differs: the authors' code assigns evidence to rows of attention by position, which is wrong if the classes of an
        example are not sorted. In the latest version of this code, no evidence reaches the loss, so only the
        classification loss is minimized. Neither fault is reproduced.
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
        self.reduction: Reduction = reduction
        self.expected_weight: float | None = None
        self._num_pairs: int | None = None  # pairs with evidence in this epoch; None if the epoch was resumed

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage == "fit":
            self.expected_weight = expected_weight(self.data_module, self.evidence_weights)
            if self.expected_weight == 0:
                raise ValueError(f"no training example has {_NO_EVIDENCE}")

    def evidence_weights(self, batch: Batch) -> Tensor:
        """Returns the weight [B] of each example: its number of pairs with evidence or, for "paper", 0 or 1."""
        _, evidence, pairs = _gold_evidence(batch)
        return evidence_weights(evidence, pairs, reduction=self.reduction)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        rationale, evidence, pairs = _gold_evidence(batch)
        output = self.network(batch.inputs)
        if self._num_pairs is not None:
            self._num_pairs += int((pairs & evidence.any(dim=-1)).sum())
        classification = classification_loss(output.logits, batch.labels)
        readout = target_rows(output.readout, rationale.targets)
        attention = evidence_loss(
            readout, evidence, pairs, reduction=self.reduction, expected_weight=self.expected_weight
        )
        return {
            "loss": classification + self.weight * attention,
            "classification": classification,
            "attention": attention,
        }

    def on_train_epoch_start(self) -> None:
        self._num_pairs = 0  # Lightning does not call this hook when it resumes within an epoch

    def on_train_epoch_end(self) -> None:
        if self._num_pairs is None:  # the number of pairs before the resume is unknown
            return
        num_pairs = torch.tensor(float(self._num_pairs), device=self.device)
        if not self.trainer.strategy.reduce(num_pairs, reduce_op="sum"):
            raise ValueError(f"no training example of this epoch had {_NO_EVIDENCE}")


def _gold_evidence(batch: Batch) -> tuple[Attribution, Tensor, Tensor]:
    """Returns the rationale, the mask [B, K, T] of its evidence tokens, and the mask [B, K] of gold classes."""
    rationale = batch.rationale
    if rationale is None:
        raise ValueError("the training data has no rationales: use data with evidence, or Supervised")
    evidence = (rationale.scores > 0) & rationale.token_mask.unsqueeze(1)
    return rationale, evidence, rationale.target_mask & gold_pairs(batch.labels, rationale.targets)
