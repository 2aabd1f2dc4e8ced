"""A term that trains the classification head's attention to agree with human rationales."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from lightning_xai.functional.attention import target_rows
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.targets import gold_pairs
from lightning_xai.models.base import Classifier
from lightning_xai.objectives.losses import Reduction, evidence_weights, mean_evidence_divergence
from lightning_xai.objectives.terms.base import CleanPass, Term, TermValue
from lightning_xai.objectives.terms.weights import Weight
from lightning_xai.types import Attribution, Batch


class SupervisedAttention(Term):
    """KL(uniform over evidence tokens || the classification head's attention to tokens), in nats.

    Edin et al. (2024) train their supervised baseline, B_S, with this auxiliary loss.

    The loss covers only gold classes with evidence. It compares the evidence of a class with the attention for the same
    class.

    Args:
        weight: factor of the divergence, as in `Term`. The published value, 2.5, is for the reduction "paper". Since
            "paper" divides by the padded length T, "per_code" needs a much smaller weight for the same effect.
        reduction: "per_code" takes the mean KL over pairs (document, class) with evidence; this mean does not depend on
            padding. "paper" divides each document's mean KL by the padded length T, and then takes the mean over the
            documents with evidence; this mean depends on which documents are padded together.
        **kwargs: arguments of `Term`.

    Raises:
        ValueError: the network's classification head does not attend to tokens, or the data have no rationales.

    Example:
        >>> import torch
        >>> from lightning_xai.models.plm_ca import PLMCA
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.types import Attribution, TextInputs
        >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> network = PLMCA(config={"model_type": "bert", "intermediate_size": 4, **sizes}, num_classes=1).eval()
        >>> inputs = TextInputs.of_ids([[1, 5, 2]], special_ids=[1, 2])
        >>> evidence = Attribution.of_scores([[[0.0, 1.0, 0.0]]], inputs.token_mask)
        >>> objective = Supervised(network, terms={"attention": SupervisedAttention(reduction="per_code")})
        >>> loss = objective.losses(Batch(inputs, torch.ones(1, 1), evidence))["attention"]
        >>> torch.allclose(loss, -network(inputs).readout[0, 0, 1].log())  # one evidence token
        True

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, Section 4.3 (B_S, after Cheng et al. 2023).
    Differs: the authors' code matches evidence with rows of attention by position, which is wrong if the classes of an
        example are not sorted. In the latest version of the authors' code, no evidence reaches the loss, so only the
        classification loss is minimized. Neither error is reproduced.
    """

    measured = True

    def __init__(self, weight: Weight = 2.5, reduction: Reduction = "paper", **kwargs: Any) -> None:
        super().__init__(weight, **kwargs)
        require_choices({"reduction": Reduction}, {"reduction": reduction})
        self.reduction: Reduction = reduction
        self.independent_of_batch = reduction == "per_code"

    def check_network(self, network: Classifier) -> None:
        if not network.readout_is_attention:
            raise ValueError(
                f"the classification head of {type(network).__name__} does not attend to tokens, so no attention can "
                "be supervised: use PLMCA"
            )

    def example_weights(self, batch: Batch) -> Tensor:
        _, evidence, pairs = gold_evidence(batch)
        return evidence_weights(evidence, pairs, reduction=self.reduction)

    def value(self, clean: CleanPass, prepared: None) -> TermValue:
        rationale, evidence, pairs = gold_evidence(clean.task.batch)
        readout = target_rows(clean.output.readout, rationale.targets)
        return TermValue(mean_evidence_divergence(readout, evidence, pairs, reduction=self.reduction))


def gold_evidence(batch: Batch) -> tuple[Attribution, Tensor, Tensor]:
    """Returns the rationale, a mask [B, K, T] of its evidence tokens, and a mask [B, K] of its gold classes.

    Raises:
        ValueError: the batch has no rationales.

    Example:
        >>> import torch
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[1, 5, 2]], special_ids=[1, 2])
        >>> rationale = Attribution.of_scores([[[0.0, 1.0, 0.0]]], inputs.token_mask)
        >>> gold_evidence(Batch(inputs, torch.tensor([0]), rationale))[1].tolist()
        [[[False, True, False]]]
    """
    rationale = batch.rationale
    if rationale is None:
        raise ValueError("the data have no rationales: use data with evidence, or leave out SupervisedAttention")
    evidence = (rationale.scores > 0) & rationale.token_mask.unsqueeze(1)
    return rationale, evidence, rationale.target_mask & gold_pairs(batch.labels, rationale.targets)
