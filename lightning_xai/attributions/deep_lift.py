"""DeepLift: divides the difference between the logits of input and baseline among the tokens."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.attributions.base import AttributionMethod, explaining
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.class_outputs import class_columns, class_output
from lightning_xai.functional.gradients.path_gradients import Baseline, PathEnds, path_ends
from lightning_xai.functional.gradients.target_gradients import target_gradients
from lightning_xai.functional.network.chunking import check_chunk_size, even_slices, rows_per_forward
from lightning_xai.functional.propagation.rescale import Rescale
from lightning_xai.functional.propagation.tracked import Tracked, track
from lightning_xai.functional.scores.aggregation import Pooling, pool
from lightning_xai.functional.scores.completeness import CompletenessCheck
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


def multipliers(model: Classifier, inputs: TextInputs, targets: Tensor, ends: PathEnds) -> tuple[list[Tensor], Tensor]:
    """Returns DeepLift's multipliers for the embeddings, K tensors [B, T, D], and the logit differences [B, K].

    A logit difference is the logit of the input minus the logit of the baseline. For each class, the products of the
    multipliers and (input - baseline) sum to the logit difference.

    Args:
        model: a network in eval mode whose parameters require no gradient.
        inputs: B texts, whose masks, positions and token types are used for both input and baseline.
        targets: [B, K] long, the classes.
        ends: embeddings of the baseline and of the input.

    Raises:
        ValueError: the network calls a function without a rule (the message names the function), or its logits do not
            depend on its embeddings.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]]), torch.tensor([[0]])
        >>> ends = path_ends(random_bert(), inputs, "fill")
        >>> (multiplier,), difference = multipliers(random_bert(), inputs, targets, ends)
        >>> torch.allclose((multiplier * (ends.end - ends.start)).sum(), difference, atol=1e-4)
        True
    """
    leaf = ends.end.detach().requires_grad_()
    logits = class_output(model, inputs, targets, track(leaf, Rescale(), ends.start.detach())).logits
    if not isinstance(logits, Tracked):
        raise ValueError(f"the logits of {type(model).__name__} do not depend on its embeddings")
    assert logits.second_run is not None  # the logits of the baseline
    values = logits.plain()
    gradients = list(target_gradients(values, class_columns(targets), leaf))
    return gradients, values.detach() - logits.second_run


class DeepLift(AttributionMethod):
    """Scores tokens by their share of the difference between the class's logits for the input and for a baseline.

    The rescale rule replaces the derivative of an elementwise function by the function's slope between baseline and
    input. For a product of two hidden states, it replaces the derivative with respect to one factor by the mean of the
    other factor over baseline and input. Softmax, LayerNorm, RMSNorm and attention consist of such steps. Scores with
    pooling "sum" are therefore complete: they sum to the difference between the logits, apart from rounding.

    The rules replace the derivatives of the functions that the network calls in a forward pass, not those of modules.
    So a network may use a module twice, or call functions outside modules. A function without a rule causes an error
    that names the function. Input and baseline differ in their embeddings only; masks, positions and token types are
    those of the input.

    Passes: one forward pass each for input and baseline, and one backward pass for each class.

    Args:
        pooling: how the D values of a token become one score (see `pool`); only "sum" makes scores complete.
        baseline: "fill" replaces explainable tokens by the encoder's fill token and keeps the others; "zero" sets all
            embeddings to 0.
        chunk_size: largest number of rows in one forward pass, where an example and its baseline are two rows. By
            default, it is chosen for the device. Scores do not depend on it.
        delta_tolerance: largest completeness error, in logits, that causes no warning; None for no check. An instance
            warns at most once. The check needs no additional passes.

    Reference: Shrikumar et al. (2017), "Learning Important Features Through Propagating Activation Differences",
    arXiv 1704.02685, Section 3.5.1.
    Differs: the paper has no rule for products of hidden states; the rule here is the Shapley value of the two factors.
    captum passes plain gradients through functions without a rule (GELU, softmax, LayerNorm), so its scores for
    transformers are not complete.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
        >>> baseline = TextInputs.of_ids([[1, 0, 0, 2]])  # 0 is the fill token
        >>> difference = model(inputs).logits - model(baseline).logits
        >>> scores = DeepLift().attribute(model, inputs, torch.tensor([[0, 1]])).scores
        >>> torch.allclose(scores.sum(dim=2), difference, atol=1e-4)
        True
    """

    def __init__(
        self,
        pooling: Pooling = "sum",
        baseline: Baseline = "fill",
        chunk_size: int | None = None,
        delta_tolerance: float | None = 0.01,
    ) -> None:
        check_chunk_size(chunk_size)
        require_choices({"pooling": Pooling, "baseline": Baseline}, {"pooling": pooling, "baseline": baseline})
        self.pooling: Pooling = pooling
        self.baseline: Baseline = baseline
        self.chunk_size = chunk_size
        self.delta_tolerance = delta_tolerance
        remedy = (
            "a LayerNorm whose input is 0 at the baseline amplifies rounding, so choose baseline='fill', or use "
            "network.double()"
        )
        self._completeness = CompletenessCheck("DeepLift", delta_tolerance, remedy)

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        scores, deltas = self._propagate(model, inputs, targets)
        self._completeness(deltas)
        return scores

    def convergence_delta(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        """Returns the completeness error [B, K]: the sum of scores minus the difference between the logits.

        The scores are those with pooling "sum", whatever the method's `pooling` is. The error is measured in logits.
        """
        with explaining(model, inputs.device.type):
            return self._propagate(model, inputs.map(torch.clone), targets.clone())[1]

    def _propagate(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Returns scores [B, K, T] and completeness errors [B, K]."""
        num_tokens = inputs.input_ids.shape[1]
        max_rows = rows_per_forward(self.chunk_size, num_tokens, inputs.device, differentiated=True)
        scores, deltas = [], []
        for rows in even_slices(len(inputs), max(max_rows // 2, 1)):
            group, classes = inputs[rows].trim(), targets[rows]
            ends = path_ends(model, group, self.baseline)
            gradients, differences = multipliers(model, group, classes, ends)
            products = [(ends.end - ends.start).detach() * gradient for gradient in gradients]
            pooled = torch.stack([pool(product, self.pooling) for product in products], dim=1)
            scores.append(F.pad(pooled, (0, num_tokens - pooled.shape[-1])))
            deltas.append(torch.stack([product.sum(dim=(1, 2)) for product in products], dim=1) - differences)
        return torch.cat(scores), torch.cat(deltas)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=2, backward=num_targets)
