"""Training with small gradients of the loss with respect to the input."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from lightning_xai.functional.choices import require_choices
from lightning_xai.models.base import Classifier
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.inner_search import GRADIENT_SCALE
from lightning_xai.objectives.losses import example_losses
from lightning_xai.types import Batch

Norm = Literal["frobenius", "token_sum"]
Per = Literal["example", "micro_batch"]
Wrt = Literal["sequence", "table"]


def gradient_norms(gradient: Tensor, *, norm: Norm) -> Tensor:
    """Returns [B] norms of gradients [B, T, D] or [B, V, D]: L2 over T and D, or the sum over T of L2 over D.

    None is squared; a zero gradient has subgradient zero.
    """
    gradient = gradient if gradient.dtype == torch.float64 else gradient.float()
    if norm == "frobenius":
        return torch.linalg.vector_norm(gradient, dim=(1, 2))
    return torch.linalg.vector_norm(gradient, dim=2).sum(dim=1)


def scaled_gradient(loss: Tensor, variable: Tensor) -> Tensor:
    """Returns the differentiable gradient of `loss` [], safe from underflow in float16 networks."""
    (gradient,) = torch.autograd.grad(loss * GRADIENT_SCALE, variable, create_graph=True)
    return gradient / GRADIENT_SCALE


def sequence_penalty(losses: Tensor, embeds: Tensor, *, norm: Norm, per: Per) -> Tensor:
    """Returns the norm [] of the gradient of `losses` [B] with respect to `embeds` [B, T, D].

    Args:
        per: "example" takes the norm of each example's own gradient and the mean of the norms; "micro_batch" takes one
            norm of the mean loss's gradient over all examples.
    """
    if per == "example":
        # rows do not affect each other, so the gradient of the sum holds every example's own gradient
        return gradient_norms(scaled_gradient(losses.sum(), embeds), norm=norm).mean()
    gradient = scaled_gradient(losses.mean(), embeds)
    return gradient_norms(gradient.flatten(0, 1).unsqueeze(0), norm=norm).sum()


def table_penalty(losses: Tensor, table: Tensor, *, norm: Norm, per: Per) -> Tensor:
    """Returns the norm [] of the gradient of `losses` [B] with respect to the embedding table [V, D].

    Occurrences of a token are pooled, and may cancel, before the norm. "example" costs one backward pass an example.
    """
    parts = losses if per == "example" else losses.mean().unsqueeze(0)
    norms = [gradient_norms(scaled_gradient(part, table).unsqueeze(0), norm=norm) for part in parts]
    return torch.cat(norms).mean()


class InputGradient(Objective):
    """Adds to the classification loss the L2 norm of its gradient with respect to the input (IGR).

    Args:
        weight: factor on the penalty, lambda_1.
        wrt: the embedding sequence, or the table of word embeddings whose rows pool a token's occurrences.
        per: one penalty an example, which no neighbor in the batch affects, or one for the micro-batch's mean loss,
            whose value depends on the batch size.
        norm: of the whole gradient, or of every token's (table row's) gradient and then summed.

    Raises:
        ValueError: the network was compiled (torch.compile gives wrong second derivatives, pytorch #91469), or its
            embedding table is frozen while `wrt` is "table".

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, Section 3.1; after Drucker and Le Cun (1992).
    Differs: the authors' code is `wrt: table, per: micro_batch, norm: token_sum`, and skips the penalty when it is NaN.
    """

    needs_double_backward: ClassVar[bool] = True

    def __init__(
        self,
        network: Classifier,
        weight: float = 1e-5,
        wrt: Wrt = "sequence",
        per: Per = "example",
        norm: Norm = "frobenius",
        **kwargs: Any,
    ) -> None:
        super().__init__(network, **kwargs)
        require_choices({"wrt": Wrt, "per": Per, "norm": Norm}, {"wrt": wrt, "per": per, "norm": norm})
        if weight < 0:
            raise ValueError(f"weight is {weight}: give 0 or more")
        if wrt == "table" and not network.embedding_matrix.requires_grad:
            raise ValueError("wrt is 'table', but the embedding table is frozen: unfreeze it, or use wrt: sequence")
        self.weight = weight
        self.wrt = wrt
        self.per = per
        self.norm = norm

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        # cuDNN's recurrent layers have no second derivative, torch's own have
        with torch.backends.cudnn.flags(enabled=False):
            embeds = self.network.embed(batch.inputs)
            if not embeds.requires_grad:  # frozen embeddings
                embeds = embeds.requires_grad_()
            losses = example_losses(self.network(batch.inputs, embeds).logits, batch.labels)
            if self.wrt == "sequence":
                penalty = sequence_penalty(losses, embeds, norm=self.norm, per=self.per)
            else:
                penalty = table_penalty(losses, self.network.embedding_matrix, norm=self.norm, per=self.per)
        classification = losses.mean()
        return {
            "loss": classification + self.weight * penalty,
            "classification": classification,
            "input_gradient": penalty,
        }
