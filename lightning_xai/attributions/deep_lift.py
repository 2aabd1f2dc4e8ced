"""Differences from a baseline, propagated back through every function by its own secant."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.attributions.base import AttributionMethod, explaining
from lightning_xai.functional.aggregation import Pooling, pool
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.chunking import check_chunk_size, even_slices, rows_per_forward
from lightning_xai.functional.gradients import Baseline, path_ends, target_gradients
from lightning_xai.functional.propagation.rescale import Rescale
from lightning_xai.functional.propagation.tracked import Tracked, track
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


def multipliers(
    model: Classifier, inputs: TextInputs, targets: Tensor, start: Tensor, end: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Returns K multipliers [B, T, D] of the embeddings, and logit at `end` minus logit at `start` [B, K].

    Args:
        start: [B, T, D] embeddings of the baseline; `end` has those of the input.

    Raises:
        ValueError: the network has a function without a rule, which is named.
    """
    leaf = end.detach().requires_grad_()
    logits = model(inputs, track(leaf, Rescale(), start.detach())).logits
    if not isinstance(logits, Tracked):
        raise ValueError(f"the logits of {type(model).__name__} do not depend on its embeddings")
    values = logits.plain()
    gradients = list(target_gradients(values, targets, leaf))
    return gradients, (values.detach() - logits.other).gather(1, targets)


class DeepLift(AttributionMethod):
    """Scores tokens by what they add to the class's logit on the way from a baseline, with the rescale rule throughout.

    An elementwise function passes differences on by its slope between baseline and input, a product of two hidden
    states by the mean of the other factor; softmax, LayerNorm, RMSNorm and attention are made of these. So scores
    (pool "sum") add up to logit minus the baseline's logit, but for rounding, in one pass of both and a backward pass
    for each class. Rules are applied to the functions that the network calls while it runs, so modules may be reused
    and functions need no module; a function without a rule is an error that names it. Only embeddings differ between
    input and baseline; masks, positions and token types are the input's.

    Args:
        pool: what a token makes of its D values; completeness holds for "sum".
        baseline: "fill" replaces explainable tokens by the encoder's fill token and keeps the others; "zero" has zero
            vectors everywhere.
        chunk_size: most rows in one forward pass (an example and its baseline are two); None takes as many as suit the
            device. Results do not depend on it.
        delta_tolerance: largest completeness error, in logits, that passes without a warning (given once). Checking is
            free; None leaves it out.

    Reference: Shrikumar et al. (2017), "Learning Important Features Through Propagating Activation Differences",
    arXiv 1704.02685, Section 3.5.1.
    Differs: the paper has no rule for products of hidden states; theirs is the Shapley value of the two factors.
    captum passes gradients on where it has no rule (GELU, softmax, LayerNorm), so its scores on transformers do not
    add up.
    """

    def __init__(
        self,
        pool: Pooling = "sum",
        baseline: Baseline = "fill",
        chunk_size: int | None = None,
        delta_tolerance: float | None = 0.01,
    ) -> None:
        check_chunk_size(chunk_size)
        require_choices({"pool": Pooling, "baseline": Baseline}, {"pool": pool, "baseline": baseline})
        self.pool = pool
        self.baseline = baseline
        self.chunk_size = chunk_size
        self.delta_tolerance = delta_tolerance
        self._warned = False

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        scores, deltas = self._propagate(model, inputs, targets)
        if self.delta_tolerance is not None and len(inputs):
            self._warn(deltas)
        return scores

    def convergence_delta(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        """Returns the completeness error [B, K], in logits: the sum of signed scores minus (logit - baseline's logit).

        It is that of the unpooled product with (input - baseline), whatever `pool` is.
        """
        with explaining(model, inputs.device.type):
            return self._propagate(model, inputs.map(torch.clone), targets.clone())[1]

    def _propagate(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Returns scores [B, K, T] and completeness errors [B, K]."""
        width = inputs.input_ids.shape[1]
        rows = rows_per_forward(self.chunk_size, width, inputs.device, differentiated=True)
        scores, deltas = [], []
        for some in even_slices(len(inputs), max(rows // 2, 1)):
            group, classes = inputs[some].trim(), targets[some]
            start, end = path_ends(model, group, self.baseline)
            gradients, differences = multipliers(model, group, classes, start, end)
            products = [(end - start).detach() * gradient for gradient in gradients]
            pooled = torch.stack([pool(product, self.pool) for product in products], dim=1)
            scores.append(F.pad(pooled, (0, width - pooled.shape[-1])))
            deltas.append(torch.stack([product.sum(dim=(1, 2)) for product in products], dim=1) - differences)
        return torch.cat(scores), torch.cat(deltas)

    def _warn(self, deltas: Tensor) -> None:
        worst = float(deltas.abs().max())
        if worst > self.delta_tolerance and not self._warned:
            self._warned = True
            warnings.warn(
                f"DeepLift misses completeness by up to {worst:.3g} logits, more than {self.delta_tolerance}: rounding "
                "is amplified where a norm gets zeros at the baseline; choose baseline='fill', or network.double()",
                stacklevel=2,
            )

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=2, backward=num_targets)
