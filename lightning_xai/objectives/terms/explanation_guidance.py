"""Training for attributions that agree with human rationales (explanation regularization)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.base import AttributionMethod, DifferentiableAttribution
from lightning_xai.functional.choices import require_choices
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.objectives.terms.base import CleanPass, Term, TermValue
from lightning_xai.objectives.terms.guidance_scores import (
    GuidanceLoss,
    GuidanceSign,
    Normalization,
    Target,
    normalized_scores,
    row_losses,
)
from lightning_xai.objectives.terms.guidance_settings import GuidanceSettings, check_settings, default_settings
from lightning_xai.objectives.terms.guided_maps import (
    Combine,
    attention_maps,
    check_guided_method,
    check_layers_and_heads,
    method_map,
)
from lightning_xai.objectives.terms.guided_rows import GuidedRows, Unannotated, guided_rows
from lightning_xai.objectives.terms.rationale_check import require_evidence
from lightning_xai.objectives.terms.weights import Weight
from lightning_xai.types import Batch

Average = Literal["example", "token"]
GuidedClasses = Literal["gold", "predicted"]


class ExplanationGuidance(Term):
    """The difference between the scores of an attribution method and targets made from human rationales.

    The scores of all tokens are compared, including special tokens, whose target is 0. In single-label data, a text has
    one row of scores, for its gold or predicted class (`explained`). In multi-label data, a text has a row for each
    gold class with evidence. The loss of a text is the mean over its rows.

    If an option is None, its value depends on the method; the values in use are printed at the start of training. For
    Attention, scores are multiplied by 100 and normalized by softmax, and targets sum to 1. For AttentionRollout and
    ALTI, scores are left unchanged, and targets sum to 1. For InputXGradient, IntegratedGradients, DecompXReverse and
    other methods with signed scores, absolute scores are divided by their L2 norm, targets are binary, and texts
    without evidence are compared with targets of 0. All other scores are divided by their sum, and their targets sum to
    1. The losses "bce", "kl" and "order" change some of these values, see `default_settings`.

    Args:
        method: the differentiable method whose scores are trained. The paper's InputXGradient has `pooling: sum`.
        weight: factor of the term, as in `Term`.
        score: the loss that compares scores with targets. "mae", "mse" and "huber" are means over tokens. "bce" is also
            a mean over tokens, and needs scores in [0, 1]. "kl" is KL(target || scores) in nats, and needs scores that
            sum to 1. "order" is the sum over evidence tokens of
            (min(score / largest score outside the evidence, 1) - 1)^2.
        average: "example" gives every text the same weight. "token" gives every token the same weight, so long texts
            count more; "kl" and "order" are then divided by the number of tokens. The paper's bounds are for "token".
        normalization: "softmax" over the tokens of a text; "sum" (magnitudes sum to 1); "l2" (the L2 norm is 1); or
            "none".
        scaling: factor of the scores before the normalization.
        sign: "absolute" takes absolute scores, "keep" keeps their signs.
        target: target of each evidence token: 1 / (number of evidence tokens) for "distribution", or 1 for "binary".
        unannotated: what to do with single-label texts without evidence for their class: "leave_out", or "empty_target"
            to compare them with targets of 0. A text that lost all evidence by truncation is always left out.
        explained: class whose scores are trained, "gold" or "predicted"; multi-label data need "gold".
        layers: only for `Attention`: indices of encoder layers. 0 is the first layer, and -1 the last. If None, the
            last layer is used.
        combine_layers: how several layers are combined. "losses" computes a loss for each layer, and takes the mean of
            these losses. "scores" takes the mean attention over the layers, and computes one loss from it.
        heads: only for `Attention`: indices of attention heads, whose losses are averaged. If None, the loss is that of
            the mean attention over all heads.
        positive_weight: factor of "bce" at evidence tokens.
        huber_delta: error up to which "huber" is quadratic.
        **kwargs: arguments of `Term`.

    Raises:
        ValueError: a setting is out of range, settings contradict each other, the method is not differentiable, or it
            cannot explain the network. The objective's `setup` raises it if no training text has evidence.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.types import Attribution, TextInputs
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
        >>> rationale = Attribution.of_scores([[[0.0, 1.0, 1.0, 0.0]]], inputs.token_mask)
        >>> guidance = ExplanationGuidance(Attention(), scaling=1.0, normalization="none", score="kl")
        >>> objective = Supervised(random_bert(), terms={"guidance": guidance})
        >>> loss = objective.losses(Batch(inputs, torch.tensor([0]), rationale))["guidance"]
        >>> attention = Attention().attribute(random_bert(), inputs, torch.tensor([[0]])).scores[0, 0, 1:3]
        >>> torch.allclose(loss, (0.5 * (0.5 / attention).log()).sum())
        True

    Reference: Ferreira et al. (2024), "Explanation Regularisation through the Lens of Attributions", arXiv 2407.16693,
        Section 3; the scores are those of Joshi et al. (2022), arXiv 2205.12542.
    Differs: the published code computes InputXGradient in a second forward pass with other dropout masks, and its
        network embeds texts twice. The published code divides the sum over a batch by the batch's number of tokens.
        Here, if `average` is "token", the sum is divided by the mean number of tokens in batches of this size.
    """

    measured = True

    def __init__(
        self,
        method: AttributionMethod,
        weight: Weight = 1.0,
        score: GuidanceLoss = "mae",
        average: Average = "example",
        normalization: Normalization | None = None,
        scaling: float | None = None,
        sign: GuidanceSign | None = None,
        target: Target | None = None,
        unannotated: Unannotated | None = None,
        explained: GuidedClasses = "gold",
        layers: list[int] | None = None,
        combine_layers: Combine = "losses",
        heads: list[int] | None = None,
        positive_weight: float = 1.0,
        huber_delta: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, **kwargs)
        words = {"normalization": normalization, "sign": sign, "target": target, "unannotated": unannotated}
        given: dict[str, Any] = {name: word for name, word in words.items() if word is not None}
        fixed = {"score": score, "average": average, "explained": explained, "combine_layers": combine_layers}
        choices = {"score": GuidanceLoss, "average": Average, "explained": GuidedClasses, "combine_layers": Combine}
        choices |= {"normalization": Normalization, "sign": GuidanceSign, "target": Target, "unannotated": Unannotated}
        require_choices({name: choices[name] for name in fixed | given}, fixed | given)
        for name, number in (("scaling", scaling), ("positive_weight", positive_weight), ("huber_delta", huber_delta)):
            if number is not None and not 0 < number < float("inf"):
                raise ValueError(f"{name} is {number}: give a number above 0")
        if not isinstance(method, DifferentiableAttribution):
            raise ValueError(
                f"the scores of {type(method).__name__} are not differentiable, so no loss can train them: choose a "
                "differentiable method, such as Attention, AttentionRollout or InputXGradient"
            )
        if (layers is not None or heads is not None) and not isinstance(method, Attention):
            raise ValueError(
                f"layers and heads are for Attention, but the method is {type(method).__name__}: leave out layers and "
                "heads"
            )
        if layers == [] or heads == []:
            raise ValueError("layers or heads is []: give at least one index, or leave out the option")
        numbers: dict[str, Any] = {} if scaling is None else {"scaling": scaling}
        self.used: GuidanceSettings = default_settings(method, score)._replace(**given, **numbers)
        check_settings(method, score, self.used)
        self.method: DifferentiableAttribution = method
        self.score: GuidanceLoss = score
        self.average: Average = average
        self.explained: GuidedClasses = explained
        self.layers = layers
        self.combine_layers: Combine = combine_layers
        self.heads = heads
        self.positive_weight = positive_weight
        self.huber_delta = huber_delta
        self._unannotated_given = unannotated

    def describe(self) -> str:
        parts = [f"{type(self.method).__name__} {self.score} per {self.average}", str(self.used)]
        parts += [f"layers {self.layers}"] if self.layers else []
        parts += [f"heads {self.heads}"] if self.heads else []
        return ", ".join(parts)

    def check_network(self, network: Classifier) -> None:
        self.method.needs(network)  # raises an error if the method wraps a method that is not differentiable
        if network.multilabel and self.explained == "predicted":
            raise ValueError("explained is 'predicted', but the data are multi-label: set `explained: gold`")
        if network.multilabel and self._unannotated_given == "empty_target":
            raise ValueError(
                "unannotated is 'empty_target', but the data are multi-label: set `unannotated: leave_out`"
            )
        if self.layers or self.heads:
            check_layers_and_heads(network, self.layers, self.heads)
        else:
            check_guided_method(self.method, network)

    def check_precision(self, precision: str, network: Classifier) -> None:
        if precision == "16-mixed" and self.needs(network).double_backward:
            raise ValueError(
                f"trainer.precision is 16-mixed, but the scores of {type(self.method).__name__} need gradients, "
                "whose small values underflow in float16: use bf16-mixed or 32-true"
            )

    def check_data(self, data: Any) -> None:
        require_evidence(data, "ExplanationGuidance")

    def needs(self, network: Classifier) -> Needs:
        return Needs(attentions=True) if self.layers or self.heads else self.method.needs(network)

    def passes(self, num_tokens: int) -> float:
        made = self.method.passes(num_tokens, 1)
        # in units of a forward pass: each forward or backward pass of the method costs 3 (1 for itself, 2 for the
        # training's backward pass through this pass). A forward pass that the objective makes anyway costs nothing more
        return 3.0 * made.backward + (0.0 if self.method.shares_pass else 3.0 * made.forward)

    def example_weights(self, batch: Batch) -> Tensor:
        counts = self._rows(batch).mask.sum(dim=1)
        if self.average == "example":
            return (counts > 0).float()
        return (counts * batch.inputs.attention_mask.sum(dim=1)).float()

    def value(self, clean: CleanPass, prepared: None) -> TermValue:
        mask, rows = clean.inputs.attention_mask, self._rows(clean.task.batch)
        maps = self._maps(clean, rows.targets)
        sums = torch.stack([self._losses(scores, rows.evidence, mask) for scores in maps]).mean(dim=0)  # [B, K]
        losses = sums.masked_fill(~rows.mask, 0.0).sum(dim=1) / rows.mask.sum(dim=1).clamp_min(1)
        if self.average == "token" or self.score not in ("kl", "order"):
            losses = losses / mask.sum(dim=1).clamp_min(1)
        return TermValue(losses)

    def _rows(self, batch: Batch) -> GuidedRows:
        return guided_rows(batch, unannotated=self.used.unannotated)

    def _maps(self, clean: CleanPass, targets: Tensor) -> list[Tensor]:
        if self.explained == "predicted":
            targets = clean.output.logits.argmax(dim=1, keepdim=True)
        if self.layers or self.heads:
            options = {"layers": self.layers, "heads": self.heads}
            return attention_maps(clean.output, targets, combine_layers=self.combine_layers, **options)
        return [method_map(self.method, clean, targets)]

    def _losses(self, scores: Tensor, evidence: Tensor, mask: Tensor) -> Tensor:
        used = self.used
        normalized = normalized_scores(
            scores, mask, normalization=used.normalization, scaling=used.scaling, sign=used.sign
        )
        return row_losses(
            normalized,
            evidence,
            mask,
            score=self.score,
            target=used.target,
            positive_weight=self.positive_weight,
            huber_delta=self.huber_delta,
        )
