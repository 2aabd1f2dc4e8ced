"""Training on the worst noise on token embeddings."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.modes import frozen
from lightning_xai.models.base import Classifier
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.inner_search import Minimum, StepRule, Stop, minimize_rows, require_finite
from lightning_xai.objectives.losses import classification_loss, example_losses
from lightning_xai.types import Batch

Initialization = Literal["zeros", "uniform"]


def bounded_noise(variable: Tensor, epsilon: float, attention_mask: Tensor) -> Tensor:
    """Returns noise epsilon * tanh(variable) [B, T, D], 0 at padding."""
    return epsilon * variable.tanh() * attention_mask.unsqueeze(-1)


def initial_variable(
    embeds: Tensor, index: Tensor, *, epsilon: float, initialization: Initialization, seed: int
) -> Tensor:
    """Returns where the search starts [B, T, D]: zeros, or uniform in [-epsilon, epsilon] from (seed, example)."""
    dtype = torch.promote_types(embeds.dtype, torch.float32)  # the search itself never runs in half precision
    if initialization == "zeros":
        return torch.zeros_like(embeds, dtype=dtype)
    rows = []
    for example in index.tolist():
        generator = torch.Generator().manual_seed((seed * 1_000_003 + example) % 2**63)
        rows.append(torch.rand(embeds.shape[1:], generator=generator))
    return (2 * torch.stack(rows) - 1).to(embeds.device, dtype) * epsilon


def worst_variable(
    network: Classifier,
    batch: Batch,
    *,
    epsilon: float,
    num_steps: int,
    lr: float,
    weight_decay: float = 0.01,
    step_rule: StepRule = "adamw",
    initialization: Initialization = "zeros",
    tolerance: float | None = 0.005,
    stop: Stop = "example",
    seed: int = 0,
) -> Minimum:
    """Returns Z [B, T, D] whose `bounded_noise` raises every example's loss; the network stays as it was."""
    with frozen(network):
        embeds = network.embed(batch.inputs).detach()

        def negative_losses(variable: Tensor) -> Tensor:
            noise = bounded_noise(variable, epsilon, batch.inputs.attention_mask)
            return -example_losses(network(batch.inputs, embeds + noise.to(embeds.dtype)).logits, batch.labels)

        start = initial_variable(embeds, batch.index, epsilon=epsilon, initialization=initialization, seed=seed)
        return minimize_rows(
            negative_losses,
            start,
            num_steps=num_steps,
            lr=lr,
            weight_decay=weight_decay,
            step_rule=step_rule,
            tolerance=tolerance,
            stop=stop,
            # an epsilon of 1e-5 would put the gradients below AdamW's own epsilon, and Z would hardly move
            gradient_scale=1 / epsilon,
        )


class PGD(Objective):
    """Minimizes the loss of clean inputs plus the loss under the worst noise on their embeddings.

    The noise is epsilon * tanh(Z), so its largest element stays below epsilon; Z is found in eval mode, and the outer
    loss is taken in train mode. In bfloat16 an epsilon of 1e-5 rounds away in the first matrix product: the search
    still follows the gradient at the clean input.

    Args:
        epsilon: bound on every element of the noise.
        clean_weight: factor on the clean loss.
        adversarial_weight: factor on the loss under noise, lambda_2.
        num_steps: most steps of the search.
        step_lr: learning rate of the search.
        step_weight_decay: decay of Z in AdamW.
        step_rule: AdamW, or a step of `step_lr` along the gradient's sign.
        initialization: of Z: zeros, or uniform in [-epsilon, epsilon].
        tolerance: stop when the loss is within this fraction of the loss two steps earlier; None takes all steps.
        stop: whether examples stop one by one, which no neighbor in the batch affects, or all together.

    Raises:
        ValueError: a number is out of range.

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, Section 3.1; after Madry et al. (2018), arXiv 1706.06083.
    Differs: the paper starts at zeros and gives no stopping rule; the authors' code starts at `uniform` and stops by
        `batch`. Its gradients are not divided by epsilon, so AdamW's epsilon damps its steps.
    """

    def __init__(
        self,
        network: Classifier,
        epsilon: float = 1e-5,
        clean_weight: float = 1.0,
        adversarial_weight: float = 0.5,
        num_steps: int = 100,
        step_lr: float = 0.1,
        step_weight_decay: float = 0.01,
        step_rule: StepRule = "adamw",
        initialization: Initialization = "zeros",
        tolerance: float | None = 0.005,
        stop: Stop = "example",
        **kwargs: Any,
    ) -> None:
        super().__init__(network, **kwargs)
        require_choices(
            {"step_rule": StepRule, "initialization": Initialization, "stop": Stop},
            {"step_rule": step_rule, "initialization": initialization, "stop": stop},
        )
        for name, value in {"epsilon": epsilon, "num_steps": num_steps, "step_lr": step_lr}.items():
            if value <= 0:
                raise ValueError(f"{name} is {value}: give a number above 0")
        if min(clean_weight, adversarial_weight, step_weight_decay, tolerance or 0) < 0:
            raise ValueError(
                f"clean_weight {clean_weight}, adversarial_weight {adversarial_weight}, step_weight_decay "
                f"{step_weight_decay} and tolerance {tolerance} must be 0 or more"
            )
        self.epsilon = epsilon
        self.clean_weight = clean_weight
        self.adversarial_weight = adversarial_weight
        self.num_steps = num_steps
        self.step_lr = step_lr
        self.step_weight_decay = step_weight_decay
        self.step_rule = step_rule
        self.initialization = initialization
        self.tolerance = tolerance
        self.stop = stop

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        worst = worst_variable(
            self.network,
            batch,
            epsilon=self.epsilon,
            num_steps=self.num_steps,
            lr=self.step_lr,
            weight_decay=self.step_weight_decay,
            step_rule=self.step_rule,
            initialization=self.initialization,
            tolerance=self.tolerance,
            stop=self.stop,
            seed=self.step_seed,
        )
        variable = require_finite(worst.variable, batch.index, "adversarial noise")
        embeds = self.network.embed(batch.inputs)
        noise = bounded_noise(variable, self.epsilon, batch.inputs.attention_mask).to(embeds.dtype)
        clean = classification_loss(self.network(batch.inputs, embeds).logits, batch.labels)
        adversarial = classification_loss(self.network(batch.inputs, embeds + noise).logits, batch.labels)
        return {
            "loss": self.clean_weight * clean + self.adversarial_weight * adversarial,
            "classification": clean,
            "adversarial": adversarial,
            "inner_steps": worst.num_steps.float().mean(),
        }
