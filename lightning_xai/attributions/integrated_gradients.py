"""Gradients integrated along the line from a baseline to the input."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.attributions.base import DifferentiableAttribution, explaining
from lightning_xai.functional.aggregation import Pooling, pool
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.chunking import check_chunk_size, even_slices, rows_per_forward
from lightning_xai.functional.gradients import (
    Baseline,
    PathEnds,
    Quadrature,
    path_ends,
    path_gradients,
    quadrature_points,
)
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


def target_differences(model: Classifier, inputs: TextInputs, targets: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Returns logit at `end` minus logit at `start` [B, K] for `targets` [B, K]."""
    return (model(inputs, end).logits - model(inputs, start).logits).gather(1, targets)


class IntegratedGradients(DifferentiableAttribution):
    """Scores tokens by the gradient of the class's logit averaged on the line from a baseline, times its length.

    Only embeddings move along the line; masks, positions and token types stay.

    Args:
        num_steps: points on the line.
        quadrature: rule that places and weighs them.
        pooling: what a token makes of its D values; completeness holds for "sum".
        multiply_by_inputs: False leaves out the factor (input - baseline), as the published numbers of Edin et al. do.
        baseline: "fill" replaces explainable tokens by the encoder's fill token and keeps the others; "zero" has zero
            vectors everywhere.
        chunk_size: most rows (examples times points) in one forward pass (captum's internal_batch_size); None takes as
            many as suit the device. Results do not depend on it.
        delta_tolerance: largest completeness error, in logits, that passes without a warning (given once). Checking
            costs two more forward passes an example; None leaves it out.

    Reference: Sundararajan et al. (2017), "Axiomatic Attribution for Deep Networks", arXiv 1703.01365, section 3.
    Differs: Edin et al. (2024) release multiply_by_inputs=False with "l2"; Madsen et al. (2022) release gradients that
        carry the point as a further factor; captum's trapezoid weights sum to 1 - 1 / num_steps, here they sum to 1.
    """

    def __init__(
        self,
        num_steps: int = 50,
        quadrature: Quadrature = "gausslegendre",
        pooling: Pooling = "l2",
        multiply_by_inputs: bool = True,
        baseline: Baseline = "fill",
        chunk_size: int | None = None,
        delta_tolerance: float | None = None,
    ) -> None:
        check_chunk_size(chunk_size)
        choices = {"quadrature": Quadrature, "pooling": Pooling, "baseline": Baseline}
        require_choices(choices, {"quadrature": quadrature, "pooling": pooling, "baseline": baseline})
        self._points = quadrature_points(num_steps, quadrature)
        self.num_steps = num_steps
        self.quadrature = quadrature
        self.pooling = pooling
        self.multiply_by_inputs = multiply_by_inputs
        self.baseline = baseline
        self.chunk_size = chunk_size
        self.delta_tolerance = delta_tolerance
        self._warned = False

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        parts, deltas = [], []
        for rows in self._groups(inputs):
            group = inputs[rows].trim()
            gradients, start, end = self._path_gradients(model, group, targets[rows], create_graph)
            line = end - start
            factor = line if self.multiply_by_inputs else torch.ones_like(line)
            pooled = torch.stack([pool(factor * gradient, self.pooling) for gradient in gradients], dim=1)
            parts.append(F.pad(pooled, (0, inputs.input_ids.shape[1] - pooled.shape[-1])))
            if self.delta_tolerance is not None:
                deltas.append(self._deltas(model, group, targets[rows], gradients, start, end))
        if deltas:
            self._warn(torch.cat(deltas))
        return torch.cat(parts)

    def convergence_delta(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        """Returns the completeness error [B, K], in logits: the sum of signed scores minus (logit - baseline's logit).

        It is that of the unpooled product with (input - baseline), whatever `pooling` and `multiply_by_inputs` are.
        """
        with explaining(model, inputs.device.type):
            inputs, targets = inputs.map(torch.clone), targets.clone()
            deltas = []
            for rows in self._groups(inputs):
                group = inputs[rows].trim()
                path = self._path_gradients(model, group, targets[rows], create_graph=False)
                deltas.append(self._deltas(model, group, targets[rows], *path))
        return torch.cat(deltas)

    def _groups(self, inputs: TextInputs) -> list[slice]:
        """Returns slices of examples whose points fit one forward pass: only their D values are held at a time."""
        rows = rows_per_forward(self.chunk_size, inputs.input_ids.shape[1], inputs.device, differentiated=True)
        return list(even_slices(len(inputs), max(rows // self.num_steps, 1)))

    def _path_gradients(
        self, model: Classifier, inputs: TextInputs, targets: Tensor, create_graph: bool
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        ends = path_ends(model, inputs, self.baseline)
        if not create_graph:
            ends = PathEnds(ends.start.detach(), ends.end.detach())
        gradients = path_gradients(
            model,
            inputs,
            targets,
            ends,
            self._points,
            chunk_size=self.chunk_size,
            create_graph=create_graph,
        )
        return gradients, *ends

    @torch.no_grad()
    def _deltas(
        self,
        model: Classifier,
        inputs: TextInputs,
        targets: Tensor,
        gradients: list[Tensor],
        start: Tensor,
        end: Tensor,
    ) -> Tensor:
        sums = torch.stack([((end - start) * gradient).sum(dim=(1, 2)) for gradient in gradients], dim=1)
        return sums - target_differences(model, inputs, targets, start, end)

    def _warn(self, deltas: Tensor) -> None:
        worst = float(deltas.abs().max())
        if worst > self.delta_tolerance and not self._warned:
            self._warned = True
            warnings.warn(
                f"integrated gradients miss completeness by up to {worst:.3g} logits, more than "
                f"{self.delta_tolerance}: raise num_steps above {self.num_steps}",
                stacklevel=2,
            )

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        checks = 0 if self.delta_tolerance is None else 2
        return Passes(forward=self.num_steps + checks, backward=self.num_steps * num_targets)
