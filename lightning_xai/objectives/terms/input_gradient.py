"""A term that keeps the gradient of the loss with respect to the input small."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from lightning_xai.functional.choices import require_choices
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.objectives.inner_search import GRADIENT_SCALE
from lightning_xai.objectives.terms.base import CleanPass, Term, TermValue
from lightning_xai.objectives.terms.weights import Weight

GradientNorm = Literal["frobenius", "token_sum"]
Per = Literal["example", "micro_batch"]
Wrt = Literal["sequence", "table"]


def gradient_norms(gradient: Tensor, *, norm: GradientNorm) -> Tensor:
    """Returns the norms [B] (not squared) of gradients. The derivative of a norm at 0 is 0.

    Args:
        gradient: [B, T, D] or [B, V, D].
        norm: "frobenius" is the L2 norm over T (or V) and D, "token_sum" the sum over T (or V) of L2 norms over D.

    Example:
        >>> gradient = torch.tensor([[[3.0, 0.0], [0.0, 4.0]]])
        >>> gradient_norms(gradient, norm="frobenius").item(), gradient_norms(gradient, norm="token_sum").item()
        (5.0, 7.0)
    """
    gradient = gradient if gradient.dtype == torch.float64 else gradient.float()
    if norm == "frobenius":
        return torch.linalg.vector_norm(gradient, dim=(1, 2))
    return torch.linalg.vector_norm(gradient, dim=2).sum(dim=1)


def scaled_gradient(loss: Tensor, variable: Tensor) -> Tensor:
    """Returns the gradient of `loss` [] with respect to `variable`.

    The gradient can be differentiated again, and small values do not underflow in float16.

    Example:
        >>> variable = torch.tensor([3.0], requires_grad=True)
        >>> scaled_gradient(variable.square().sum(), variable).tolist()
        [6.0]
    """
    (gradient,) = torch.autograd.grad(loss * GRADIENT_SCALE, variable, create_graph=True)
    return gradient / GRADIENT_SCALE


def micro_batch_norm(losses: Tensor, embeds: Tensor, *, norm: GradientNorm) -> Tensor:
    """Returns the norm of the mean loss's gradient with respect to the embeddings, repeated B times.

    Args:
        losses: [B] losses of the examples.
        embeds: [B, T, D] embeddings, from which the losses were computed.
        norm: as in `gradient_norms`.

    Example:
        >>> embeds = torch.zeros(1, 2, 2, requires_grad=True)
        >>> losses = (embeds * torch.tensor([[3.0, 0.0], [0.0, 4.0]])).sum(dim=(1, 2))
        >>> micro_batch_norm(losses, embeds, norm="frobenius").tolist()
        [5.0]
    """
    gradient = scaled_gradient(losses.mean(), embeds)
    return gradient_norms(gradient.flatten(0, 1).unsqueeze(0), norm=norm).expand(len(losses))


def table_norms(losses: Tensor, table: Tensor, *, norm: GradientNorm, per: Per) -> Tensor:
    """Returns the norms [B] of the gradients of `losses` [B] with respect to the embedding table [V, D].

    The gradients of all occurrences of a token are added before the norm is taken, so they may cancel out.

    Args:
        norm: as in `gradient_norms`.
        per: "example" takes the gradient of each example's own loss, with one backward pass per example. "micro_batch"
            takes the gradient of the mean loss, and repeats its norm B times.

    Example:
        >>> table = torch.zeros(3, 2, requires_grad=True)
        >>> losses = (table[[1, 1]] * torch.tensor([[3.0, 4.0], [-3.0, -4.0]])).sum().unsqueeze(0)
        >>> table_norms(losses, table, norm="frobenius", per="example").item()
        0.0
    """
    parts = losses if per == "example" else losses.mean().unsqueeze(0)
    norms = [gradient_norms(scaled_gradient(part, table).unsqueeze(0), norm=norm) for part in parts]
    return torch.cat(norms).expand(len(losses))


def total_norm(parameters: Iterable[Tensor]) -> Tensor:
    """Returns the L2 norm [] of all parameters together. Unlike torch.nn.utils.get_total_norm, it has a gradient.

    Example:
        >>> total_norm([torch.tensor([[3.0]]), torch.tensor([0.0, 4.0])])
        tensor(5.)
    """
    exact = [parameter if parameter.dtype == torch.float64 else parameter.float() for parameter in parameters]
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(parameter) for parameter in exact]))


class InputGradient(Term):
    """The norm of the loss's gradient with respect to the input (IGR).

    Args:
        wrt: the input with respect to which the gradient is taken: "sequence" for the embeddings of the text's tokens,
            or "table" for the table of word embeddings, where the gradients of all occurrences of a token are added.
        per: "example" computes a norm for each example, so that examples do not affect each other. "micro_batch"
            computes one norm, of the gradient of the micro-batch's mean loss. This norm depends on how an optimizer
            step is divided into micro-batches and processes.
        norm: "frobenius" is the L2 norm of the whole gradient. "token_sum" is the sum of the L2 norms of the gradient's
            rows, one for each token of the sequence or of the table.
        parameter_norm: whether to add the L2 norm of all trainable weights, as in equation 4 of Li et al. (2023).
        **kwargs: arguments of `Term`.

    Raises:
        ValueError: a setting is out of range, or `wrt` is "table" although the embedding table is frozen or the term is
            computed in validation.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.types import Batch, TextInputs
        >>> objective = Supervised(random_bert(), terms={"igr": InputGradient(weight=0.5)})
        >>> losses = objective.losses(Batch(TextInputs.of_ids([[1, 5, 2]]), torch.tensor([0])))
        >>> torch.allclose(losses["loss"], losses["classification"] + 0.5 * losses["igr"])
        True

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, Section 3.1; after Drucker and Le Cun (1992).
    Differs: the authors' code uses `wrt: table, per: micro_batch, norm: token_sum`, and leaves out norms that are NaN.
    """

    def __init__(
        self,
        weight: Weight = 1e-5,
        wrt: Wrt = "sequence",
        per: Per = "example",
        norm: GradientNorm = "frobenius",
        parameter_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, **kwargs)
        require_choices({"wrt": Wrt, "per": Per, "norm": GradientNorm}, {"wrt": wrt, "per": per, "norm": norm})
        self.wrt: Wrt = wrt
        self.per: Per = per
        self.norm: GradientNorm = norm
        self.parameter_norm = parameter_norm
        self.independent_of_batch = per == "example"
        self._trained: set[str] = set()  # names of the weights that were trainable when the objective was built

    def check_network(self, network: Classifier) -> None:
        if self.wrt == "table" and not network.embedding_matrix.requires_grad:
            raise ValueError("wrt is 'table', but the embedding table is frozen: unfreeze it, or set `wrt: sequence`")
        if self.wrt == "table" and self.validate:
            raise ValueError(
                "wrt is 'table', but the term is also computed in validation, where weights have no gradient: set "
                "`wrt: sequence`, or set `validate: false` and give the term no bound"
            )
        self._trained = {name for name, parameter in network.named_parameters() if parameter.requires_grad}

    def needs(self, network: Classifier) -> Needs:
        return Needs(embeds=True, double_backward=True, readout=False)

    def passes(self, num_tokens: int) -> float:
        return 3.0  # 1 for the gradient of the loss, and 2 for the backward pass through this gradient

    def value(self, clean: CleanPass, prepared: None) -> TermValue:
        norms = self._norms(clean)
        if self.parameter_norm:
            # the weights are those in `_trained`. Their requires_grad does not help, because it is False in validation,
            # where all weights are frozen
            trained = [parameter for name, parameter in clean.network.named_parameters() if name in self._trained]
            norms = norms + total_norm(trained)
        return TermValue(norms)

    def _norms(self, clean: CleanPass) -> Tensor:
        losses = clean.losses
        if self.wrt == "table":
            return table_norms(losses, clean.network.embedding_matrix, norm=self.norm, per=self.per)
        if self.per == "example":
            return gradient_norms(clean.loss_gradient, norm=self.norm)
        assert clean.embeds is not None
        return micro_batch_norm(losses, clean.embeds, norm=self.norm)
