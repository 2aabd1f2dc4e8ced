"""Virtual adversarial training: a term that keeps predictions the same in a small neighborhood of the embeddings."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.seeds import example_generator
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.objectives.inner_search import GRADIENT_SCALE
from lightning_xai.objectives.terms.base import CleanPass, Term, TermValue
from lightning_xai.objectives.terms.weights import Weight

Projection = Literal["clamp", "divide"]
Dropout = Literal["shared", "independent"]


def symmetric_divergences(logits: Tensor, other: Tensor, *, multilabel: bool) -> Tensor:
    """Returns KL(p || q) + KL(q || p) [B] in nats, where p and q are the predictions for two tensors of logits [B, C].

    Multi-label predictions are one Bernoulli distribution for each class; their divergences are averaged over C.

    Example:
        >>> same = torch.tensor([[1.0, 0.0]])
        >>> symmetric_divergences(same, same, multilabel=False)
        tensor([0.])
        >>> symmetric_divergences(torch.tensor([[0.0]]), torch.tensor([[1.0]]), multilabel=True)  # (0.7311 - 0.5) * 1
        tensor([0.2311])
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    logits, other = logits.to(dtype), other.to(dtype)
    if multilabel:
        return ((logits.sigmoid() - other.sigmoid()) * (logits - other)).mean(dim=1)
    logs, other_logs = logits.log_softmax(dim=1), other.log_softmax(dim=1)
    return ((logs.exp() - other_logs.exp()) * (logs - other_logs)).sum(dim=1)


def project(noise: Tensor, epsilon: float, *, projection: Projection) -> Tensor:
    """Returns noise [B, T, D], limited by a projection.

    Args:
        noise: [B, T, D].
        epsilon: bound on the magnitude of every element; used only by "clamp".
        projection: "clamp" limits every element to [-epsilon, epsilon]. "divide" divides each token's noise by its
            largest magnitude plus 1e-6, so that the largest magnitude becomes about 1.

    Example:
        >>> noise = torch.tensor([[[0.5, -2.0]]])
        >>> project(noise, 1.0, projection="clamp"), project(noise, 1.0, projection="divide")
        (tensor([[[ 0.5000, -1.0000]]]), tensor([[[ 0.2500, -1.0000]]]))
    """
    if projection == "clamp":
        return noise.clamp(-epsilon, epsilon)
    return noise / (noise.abs().amax(dim=-1, keepdim=True) + 1e-6)


class VAT(Term):
    """The divergence between the predictions for an input and for the same input with adversarial noise (VAT, SMART).

    The noise on the embeddings starts as Gaussian random numbers. Each step of a search adds a multiple of the
    divergence's gradient to the noise, and then projects the noise (`project`). The search uses the dropout masks of
    the clean pass. If the final pass with noise uses the same masks (`dropout: shared`), the divergence measures only
    the effect of the noise. With an epsilon of 1e-5, bfloat16 is too coarse: the divergence then measures rounding
    errors.

    Args:
        weight: factor of the divergence (lambda_3 in the paper), as in `Term`.
        epsilon: bound on the magnitude of every element of the noise. With projection "divide", it bounds only
            the noise before the first step.
        step_size: factor of the gradient in a step.
        num_steps: number of steps.
        noise_std: standard deviation of the noise before the first step.
        projection: as in `project`.
        dropout: "shared" uses the dropout masks of the clean pass for the pass with noise, too. "independent" draws
            other masks for the pass with noise, as in SMART's code. With an epsilon of 1e-5, almost all of the
            divergence then comes from dropout: the divergence is about 1e-4 instead of 7e-9.
        **kwargs: arguments of `Term`.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.types import Batch, TextInputs
        >>> term = VAT(epsilon=0.1, noise_std=0.1)
        >>> losses = Supervised(random_bert(), terms={"vat": term}).losses(
        ...     Batch(TextInputs.of_ids([[1, 5, 2]]), torch.tensor([0]))
        ... )
        >>> bool(losses["vat"] > 0)
        True

    Reference: Li et al. (2023), "Towards Faithful Explanations for Text Classification with Robustness Improvement and
        Explanation Guided Training", arXiv 2312.17591, Section 3.2; after SMART, Jiang et al. (2019), arXiv 1911.03437.
    Differs: the authors published no code. The code of related work uses `projection: divide`.
    """

    def __init__(
        self,
        weight: Weight = 0.5,
        epsilon: float = 1e-5,
        step_size: float = 1e-3,
        num_steps: int = 2,
        noise_std: float = 1e-5,
        projection: Projection = "clamp",
        dropout: Dropout = "shared",
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, **kwargs)
        words = {"projection": projection, "dropout": dropout}
        require_choices({"projection": Projection, "dropout": Dropout}, words)
        for name, value in {"epsilon": epsilon, "step_size": step_size, "noise_std": noise_std}.items():
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value}: give a number above 0")
        if num_steps < 1:
            raise ValueError(f"num_steps is {num_steps}: give at least 1")
        self.epsilon = epsilon
        self.step_size = step_size
        self.num_steps = num_steps
        self.noise_std = noise_std
        self.projection: Projection = projection
        self.dropout: Dropout = dropout

    def needs(self, network: Classifier) -> Needs:
        return Needs(embeds=True, readout=False)

    def passes(self, num_tokens: int) -> float:
        return 2.0 * self.num_steps + 3.0

    def value(self, clean: CleanPass, prepared: None) -> TermValue:
        multilabel, fixed = clean.network.multilabel, clean.output.logits.detach()
        assert clean.embeds is not None
        embeds, noise = clean.embeds.detach(), self._start(clean)
        with torch.enable_grad():
            for _ in range(self.num_steps):
                noise.requires_grad_()
                moved = embeds + noise.to(embeds.dtype)
                logits = clean.again(clean.inputs, moved, same_dropout=True, output_readout=False).logits
                divergences = symmetric_divergences(logits, fixed, multilabel=multilabel)
                (gradient,) = torch.autograd.grad((divergences * GRADIENT_SCALE).sum(), noise)
                noise = noise.detach() + self.step_size * gradient / GRADIENT_SCALE
                noise = project(noise, self.epsilon, projection=self.projection)
        if self.dropout == "independent":
            clean.state_after.restore()
        noisy = clean.embeds + noise.to(clean.embeds.dtype)
        same = self.dropout == "shared"
        logits = clean.again(clean.inputs, noisy, same_dropout=same, output_readout=False).logits
        return TermValue(symmetric_divergences(logits, clean.output.logits, multilabel=multilabel))

    def _start(self, clean: CleanPass) -> Tensor:
        """Returns random noise [B, T, D], 0 at padding. The noise on an example's tokens does not depend on padding."""
        assert clean.embeds is not None
        shape, dtype = clean.embeds.shape[1:], torch.promote_types(clean.embeds.dtype, torch.float32)
        rows = []
        mask = clean.inputs.attention_mask
        for index, keep in zip(clean.task.batch.index.tolist(), mask.cpu(), strict=True):
            drawn = example_generator(clean.task.seed, index, "VAT").standard_normal((int(keep.sum()), shape[1]))
            row = torch.zeros(shape, dtype=dtype)
            row[keep] = torch.from_numpy(drawn).to(dtype)
            rows.append(row)
        return project(self.noise_std * torch.stack(rows).to(clean.embeds.device), self.epsilon, projection="clamp")
