"""A term that trains predictions to change when the top tokens are erased, but not when all other tokens are erased."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.targets import gold_targets
from lightning_xai.functional.erasure.erase import erase
from lightning_xai.functional.scores.ranking import percent_of, ranks
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.objectives.terms.base import CleanPass, Task, Term, TermValue
from lightning_xai.objectives.terms.weights import Weight, check_weight
from lightning_xai.types import Batch

Removal = Literal["mask", "delete"]


def with_margin(differences: Tensor, margin: float) -> Tensor:
    """Returns max(-margin, difference) + margin, which is 0 where a difference of losses is at most -margin.

    Args:
        differences: differences of losses, in nats.
        margin: the margin, in nats, 0 or more.

    Example:
        >>> with_margin(torch.tensor([-3.0, -0.5, 2.0]), 1.0)
        tensor([0.0000, 0.5000, 3.0000])
    """
    return differences.clamp_min(-margin) + margin


class UNIREX(Term):
    """Margin losses of comprehensiveness and sufficiency, for the top tokens of an attribution method.

    Let L(x) be the objective's loss without terms for a text x, and m a margin. The comprehensiveness loss is
    max(-m, L(x) - L(x without the top k tokens)) + m. It is 0 if removing these tokens raises L by at least m. The
    sufficiency loss is max(-m, L(top k tokens) - L(x)) + m. It is 0 if L for these tokens alone is lower than L(x) by
    at least m. Both losses are means over the sizes k. Tokens are ranked by absolute scores for the gold class, or by
    their sum over several gold classes. The scores are computed in eval mode without an autograd graph, so both losses
    train only the predictions. The plausibility loss of Chan et al. is `ExplanationGuidance` with `score: bce`.

    Args:
        method: the attribution method.
        weight: factor of the sum, as in `Term`.
        comprehensiveness_weight, sufficiency_weight: factors of the two losses. A loss with factor 0 is not computed.
        comprehensiveness_margin, sufficiency_margin: margins, in nats.
        percentages: sizes k, in percent of the explainable tokens; k is rounded up.
        removal: "mask" replaces tokens by the fill token, "delete" removes them.
        **kwargs: arguments of `Term`.

    Raises:
        ValueError: a number is out of range, or both factors are 0.

    Example:
        >>> from lightning_xai.attributions.input_x_gradient import InputXGradient
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.types import TextInputs
        >>> objective = Supervised(random_bert(), terms={"unirex": UNIREX(InputXGradient())})
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 7, 2]], special_ids=[1, 2])
        >>> bool(objective.losses(Batch(inputs, torch.tensor([0])))["unirex"] > 0)
        True

    Reference: Chan et al. (2022), "UNIREX: A Unified Learning Framework for Language Model Rationale Extraction", arXiv
        2112.08802.
    """

    def __init__(
        self,
        method: AttributionMethod,
        weight: Weight = 1.0,
        comprehensiveness_weight: float = 0.5,
        sufficiency_weight: float = 0.5,
        comprehensiveness_margin: float = 1.0,
        sufficiency_margin: float = 1.0,
        percentages: tuple[float, ...] = (10.0, 20.0, 50.0),
        removal: Removal = "mask",
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, **kwargs)
        require_choices({"removal": Removal}, {"removal": removal})
        factors = {"comprehensiveness_weight": comprehensiveness_weight, "sufficiency_weight": sufficiency_weight}
        for name, factor in factors.items():
            check_weight(factor, name)
        if not any(factors.values()):
            raise ValueError("comprehensiveness_weight and sufficiency_weight are 0: set at least one of them above 0")
        margins = {"comprehensiveness_margin": comprehensiveness_margin, "sufficiency_margin": sufficiency_margin}
        for name, margin in margins.items():
            if not 0 <= margin < float("inf"):
                raise ValueError(f"{name} is {margin}: give a finite number of nats, at least 0")
        if not percentages or not all(0 < percentage < 100 for percentage in percentages):
            raise ValueError(f"percentages is {list(percentages)}: give at least one number, each between 0 and 100")
        self.method = method
        self.comprehensiveness_weight, self.sufficiency_weight = comprehensiveness_weight, sufficiency_weight
        self.comprehensiveness_margin, self.sufficiency_margin = comprehensiveness_margin, sufficiency_margin
        self.percentages = tuple(percentages)
        self.removal: Removal = removal

    def needs(self, network: Classifier) -> Needs:
        return Needs(own_attentions=self.method.needs_attentions, readout=False)

    def passes(self, num_tokens: int) -> float:
        made = self.method.passes(num_tokens, 1)
        erased = sum(factor > 0 for factor in (self.comprehensiveness_weight, self.sufficiency_weight))
        return float(made.forward + made.backward) + 3.0 * erased * len(self.percentages)

    def example_weights(self, batch: Batch) -> Tensor:
        return gold_targets(batch.labels)[1].any(dim=1).float()

    def prepare(self, task: Task) -> Tensor:
        """Returns [B, J, T] bool, True at the top k tokens of each text, for the sizes k of all J percentages."""
        inputs, (targets, gold) = task.batch.inputs, gold_targets(task.batch.labels)
        scores = self.method.attribute(task.network, inputs, targets, gold).scores.abs() * gold.unsqueeze(-1)
        places = ranks(scores.sum(dim=1).double().cpu(), inputs.token_mask.cpu()).to(inputs.device)
        totals = inputs.token_mask.sum(dim=1)
        sizes = [percent_of(totals, percentage, rounding="ceil") for percentage in self.percentages]
        return places.unsqueeze(1) < torch.stack(sizes, dim=1).unsqueeze(-1)

    def value(self, clean: CleanPass, prepared: Tensor) -> TermValue:
        logged: dict[str, Tensor] = {}
        total = torch.zeros_like(clean.losses)
        if self.comprehensiveness_weight:
            differences = clean.losses.unsqueeze(1) - self._losses(clean, ~prepared)
            losses = with_margin(differences, self.comprehensiveness_margin).mean(dim=1)
            total, logged["comprehensiveness"] = total + self.comprehensiveness_weight * losses, losses.detach().mean()
        if self.sufficiency_weight:
            differences = self._losses(clean, prepared) - clean.losses.unsqueeze(1)
            losses = with_margin(differences, self.sufficiency_margin).mean(dim=1)
            total, logged["sufficiency"] = total + self.sufficiency_weight * losses, losses.detach().mean()
        return TermValue(total, logged)

    def _losses(self, clean: CleanPass, keep: Tensor) -> Tensor:
        """Returns the objective's losses [B, J], without terms, after erasing the tokens outside `keep` [B, J, T]."""
        losses = []
        for kept in keep.unbind(dim=1):
            fewer, _ = erase(clean.inputs, kept, self.removal, pad_id=clean.network.pad_id)
            losses.append(clean.task.losses(clean.again(fewer, output_readout=False).logits))
        return torch.stack(losses, dim=1)
