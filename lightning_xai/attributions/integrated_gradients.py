"""Gradients integrated along the line from a baseline to the input."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.attributions.base import DifferentiableAttribution, explaining
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.class_outputs import logits_only
from lightning_xai.functional.gradients.path_gradients import (
    PREFLIGHT_STEPS,
    Baseline,
    PathEnds,
    Quadrature,
    path_ends,
    path_gradients,
    quadrature_points,
)
from lightning_xai.functional.network.chunking import check_chunk_size, even_slices, rows_per_forward
from lightning_xai.functional.scores.aggregation import Pooling, pool
from lightning_xai.functional.scores.completeness import DELTA_TOLERANCE, CompletenessCheck
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.types import Passes, TextInputs


def target_differences(model: Classifier, inputs: TextInputs, targets: Tensor, ends: PathEnds) -> Tensor:
    """Returns the logits of the input minus the logits of the baseline, [B, K], for `targets` [B, K].

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs, targets = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]]), torch.tensor([[0, 1]])
        >>> end = model.embed(inputs)
        >>> target_differences(model, inputs, targets, PathEnds(end, end)).tolist()
        [[0.0, 0.0]]
    """
    end, start = (logits_only(model, inputs, embeds, classes=targets) for embeds in (ends.end, ends.start))
    return end - start


class IntegratedGradients(DifferentiableAttribution):
    """Scores tokens by (input - baseline) times the gradient of the class's logit, averaged over the line between them.

    Only the embeddings move along the line; masks, positions and token types are those of the input. With pooling "sum"
    and multiply_by_inputs=True, scores are complete: they sum to the difference between the logits of input and
    baseline.

    Passes: num_steps forward passes, and as many backward passes for each class; two more forward passes if
    `delta_tolerance` is set.

    Args:
        num_steps: number of points on the line.
        quadrature: the quadrature rule, which sets the points and their weights (see `quadrature_points`).
        pooling: how the D values of a token become one score (see `pool`); only "sum" makes scores complete.
        multiply_by_inputs: False leaves out the factor (input - baseline), as in the results of Edin et al. (2024).
        baseline: "fill" replaces explainable tokens by the encoder's fill token and keeps the others; "zero" sets the
            embeddings of all tokens to 0, except for the tokens of a prompt.
        chunk_size: largest number of rows (examples times points) in one forward pass (internal_batch_size in captum).
            By default, it is chosen for the device. Scores do not depend on it.
        delta_tolerance: largest completeness error, in logits, that causes no warning; None for no check. An instance
            warns at most once.

    Reference: Sundararajan et al. (2017), "Axiomatic Attribution for Deep Networks", arXiv 1703.01365, Section 3.
    Differs: the released code of Edin et al. (2024) gives the scores of multiply_by_inputs=False with pooling "l2". The
        released code of Madsen et al. (2022) also multiplies each gradient by its position in [0, 1] on the line. The
        weights of captum's trapezoid rule sum to 1 - 1 / num_steps; here, weights sum to 1.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
        >>> baseline = TextInputs.of_ids([[1, 0, 0, 2]])  # 0 is the fill token
        >>> difference = model(inputs).logits - model(baseline).logits
        >>> scores = IntegratedGradients(pooling="sum").attribute(model, inputs, torch.tensor([[0, 1]])).scores
        >>> torch.allclose(scores.sum(dim=2), difference, atol=1e-4)
        True
    """

    by_segment = True

    def __init__(
        self,
        num_steps: int = 50,
        quadrature: Quadrature = "gausslegendre",
        pooling: Pooling = "l2",
        multiply_by_inputs: bool = True,
        baseline: Baseline = "fill",
        chunk_size: int | None = None,
        delta_tolerance: float | None = DELTA_TOLERANCE,
    ) -> None:
        check_chunk_size(chunk_size)
        choices = {"quadrature": Quadrature, "pooling": Pooling, "baseline": Baseline}
        require_choices(choices, {"quadrature": quadrature, "pooling": pooling, "baseline": baseline})
        self._points = quadrature_points(num_steps, quadrature)
        self.num_steps = num_steps
        self.quadrature = quadrature
        self.pooling: Pooling = pooling
        self.multiply_by_inputs = multiply_by_inputs
        self.baseline: Baseline = baseline
        self.chunk_size = chunk_size
        self.delta_tolerance = delta_tolerance
        remedy = f"raise num_steps above {num_steps}" + (", or choose baseline='fill'" if baseline == "zero" else "")
        self._completeness = CompletenessCheck("integrated gradients", delta_tolerance, remedy)

    def for_preflight(self) -> IntegratedGradients:
        few = copy.copy(self)
        few.num_steps = min(self.num_steps, PREFLIGHT_STEPS)
        few._points = quadrature_points(few.num_steps, self.quadrature)
        return few

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        parts, deltas = [], []
        for rows in self._groups(inputs):
            group, classes = inputs[rows].trim(), targets[rows]
            ends = self._ends(model, group, create_graph)
            gradients = self._path_gradients(model, group, classes, ends, create_graph)
            line = ends.end - ends.start
            factor = line if self.multiply_by_inputs else torch.ones_like(line)
            pooled = torch.stack([pool(factor * gradient, self.pooling) for gradient in gradients], dim=1)
            parts.append(F.pad(pooled, (0, inputs.input_ids.shape[1] - pooled.shape[-1])))
            if self.delta_tolerance is not None:
                deltas.append(self._deltas(model, group, classes, ends, gradients))
        if deltas:
            self._completeness(torch.cat(deltas))
        return torch.cat(parts)

    def convergence_delta(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        """Returns the completeness error [B, K]: the sum of scores minus the difference between the logits.

        The scores are those with pooling "sum" and multiply_by_inputs=True, whatever the method's arguments are. The
        error is measured in logits.
        """
        with explaining(model, inputs.device.type):
            inputs, targets = inputs.map(torch.clone), targets.clone()
            deltas = []
            for rows in self._groups(inputs):
                group, classes = inputs[rows].trim(), targets[rows]
                ends = self._ends(model, group, create_graph=False)
                gradients = self._path_gradients(model, group, classes, ends, create_graph=False)
                deltas.append(self._deltas(model, group, classes, ends, gradients))
        return torch.cat(deltas)

    def _groups(self, inputs: TextInputs) -> list[slice]:
        """Returns slices of examples. The points of a slice fit in one forward pass, unless one example has too many.

        So memory holds the embeddings of only a few examples at a time.
        """
        max_rows = rows_per_forward(self.chunk_size, inputs.input_ids.shape[1], inputs.device, differentiated=True)
        return list(even_slices(len(inputs), max(max_rows // self.num_steps, 1)))

    def _ends(self, model: Classifier, inputs: TextInputs, create_graph: bool) -> PathEnds:
        start, end = path_ends(model, inputs, self.baseline)
        return PathEnds(start, end) if create_graph else PathEnds(start.detach(), end.detach())

    def _path_gradients(
        self, model: Classifier, inputs: TextInputs, targets: Tensor, ends: PathEnds, create_graph: bool
    ) -> list[Tensor]:
        return path_gradients(
            model, inputs, targets, ends, self._points, chunk_size=self.chunk_size, create_graph=create_graph
        )

    @torch.no_grad()
    def _deltas(
        self, model: Classifier, inputs: TextInputs, targets: Tensor, ends: PathEnds, gradients: list[Tensor]
    ) -> Tensor:
        """Returns the completeness errors [B, K]. `gradients` has a path gradient [B, T, D] for each of K classes."""
        sums = torch.stack([((ends.end - ends.start) * gradient).sum(dim=(1, 2)) for gradient in gradients], dim=1)
        return sums - target_differences(model, inputs, targets, ends)

    def needs(self, model: Classifier) -> Needs:
        return Needs(double_backward=True)  # a loss on the scores differentiates the gradients in `scores` again

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        num_checks = 0 if self.delta_tolerance is None else 2
        return Passes(forward=self.num_steps + num_checks, backward=self.num_steps * num_targets)
