"""Adversarial training: a term that is the loss under small adversarial noise on the embeddings."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.class_outputs import logits_only
from lightning_xai.functional.network.modes import frozen
from lightning_xai.functional.network.recomputation import layers_recomputed
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.objectives.inner_search import Minimum, Search, StepRule, minimize_rows, require_finite
from lightning_xai.objectives.terms.base import CleanPass, Task, Term, TermValue
from lightning_xai.objectives.terms.weights import Weight

Initialization = Literal["zeros", "uniform"]
# The noise is epsilon * tanh(Z), and each step changes Z by at most about 0.1. In 30 steps, tanh(Z) grows from 0 to at
# most 0.97. Since noise of size 1e-5 cannot change a loss by 0.5 %, the authors' tolerance of 0.005 would end the
# search at its third step, when tanh(Z) is at most 0.29.
DEFAULT_SEARCH = Search(num_steps=30, lr=0.1, weight_decay=0.01, tolerance=None)


def bounded_noise(variable: Tensor, epsilon: float, attention_mask: Tensor) -> Tensor:
    """Returns the noise epsilon * tanh(variable) [B, T, D], 0 at padding.

    Example:
        >>> bounded_noise(torch.full((1, 2, 1), 9.0), 0.5, torch.tensor([[True, False]])).flatten()
        tensor([0.5000, 0.0000])
    """
    return epsilon * variable.tanh() * attention_mask.unsqueeze(-1)


def initial_variable(
    embeds: Tensor, index: Tensor, *, epsilon: float, initialization: Initialization, seed: int
) -> Tensor:
    """Returns the initial variable [B, T, D] of the search: zeros, or random numbers in [-epsilon, epsilon].

    Args:
        embeds: [B, T, D] embeddings, of which only the shape, dtype and device are used.
        index: [B] indices of the examples. Each example's random numbers are seeded by its index and `seed`.
        epsilon: bound on the random numbers.
        initialization: "zeros", or "uniform" for random numbers.
        seed: seed of the random numbers.

    Example:
        >>> embeds, index = torch.ones(2, 3, 4), torch.tensor([7, 8])
        >>> start = initial_variable(embeds, index, epsilon=0.5, initialization="uniform", seed=0)
        >>> start.shape, bool((start.abs() <= 0.5).all())
        (torch.Size([2, 3, 4]), True)
    """
    dtype = torch.promote_types(embeds.dtype, torch.float32)  # the variable is never in half precision
    if initialization == "zeros":
        return torch.zeros_like(embeds, dtype=dtype)
    rows = []
    for example in index.tolist():
        generator = torch.Generator().manual_seed((seed * 1_000_003 + example) % 2**63)
        rows.append(torch.rand(embeds.shape[1:], generator=generator))
    return (2 * torch.stack(rows) - 1).to(embeds.device, dtype) * epsilon


def worst_variable(
    task: Task,
    search: Search,
    *,
    epsilon: float,
    step_rule: StepRule = "adamw",
    initialization: Initialization = "zeros",
) -> Minimum:
    """Searches for Z [B, T, D] whose `bounded_noise` raises each example's loss most. The network is not changed.

    Args:
        task: network, batch and loss.
        search: settings of the search.
        epsilon: bound on every element of the noise.
        step_rule: as in `minimize_rows`.
        initialization: as in `initial_variable`. Random numbers are seeded by the seed of `task`.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.losses import example_losses
        >>> from lightning_xai.types import Batch, TextInputs
        >>> network, batch = random_bert(), Batch(TextInputs.of_ids([[1, 5, 2]]), torch.tensor([0]))
        >>> task = Task(network, batch, lambda logits: example_losses(logits, batch.labels), seed=0)
        >>> variable = worst_variable(task, Search(num_steps=5), epsilon=0.1).variable
        >>> embeds, noise = network.embed(batch.inputs), bounded_noise(variable, 0.1, batch.inputs.attention_mask)
        >>> clean, worst = network(batch.inputs).logits, network(batch.inputs, embeds + noise).logits
        >>> bool(task.losses(worst) > task.losses(clean))
        True
    """
    network, inputs = task.network, task.batch.inputs
    with frozen(network), layers_recomputed(network):
        embeds = network.embed(inputs).detach()

        def negative_losses(variable: Tensor) -> Tensor:
            noise = bounded_noise(variable, epsilon, inputs.attention_mask)
            return -task.losses(logits_only(network, inputs, embeds + noise.to(embeds.dtype)))

        start = initial_variable(
            embeds, task.batch.index, epsilon=epsilon, initialization=initialization, seed=task.seed
        )
        return minimize_rows(
            negative_losses,
            start,
            search,
            step_rule=step_rule,
            # The gradient with respect to Z is proportional to the bound `epsilon`, so it is divided by this bound.
            # Otherwise, with a bound of 1e-5, it would be smaller than AdamW's own epsilon, and Z would hardly change.
            gradient_scale=1 / epsilon,
        )


class PGD(Term):
    """The loss under adversarial noise on the embeddings (projected gradient descent, PGD).

    The noise is epsilon * tanh(Z), so no element exceeds epsilon. A search in eval mode looks for the Z that raises the
    loss most. The value of the term is then computed in train mode. With an epsilon of 1e-5, bfloat16 is too coarse:
    the first matrix product rounds the noise away, so every step of the search follows the gradient at the clean input.

    Args:
        weight: factor of the loss under noise (lambda_2 in the paper), as in `Term`. The factor of the loss without
            noise is the objective's `task_weight`.
        epsilon: bound on every element of the noise.
        search: settings of the search for Z. The default takes 30 steps, after which the noise is 0.97 * epsilon
            wherever the gradient never changed its sign. Set `search.tolerance` only if noise of size `epsilon` can
            change the loss by a larger fraction than this tolerance. For example, with an epsilon of 1e-5, a tolerance
            of 0.005 always ends the search at its third step.
        step_rule: "adamw", or "sign" for steps of `search.lr` along the sign of the gradient.
        initialization: initial value of Z: "zeros", or "uniform" for random numbers in [-epsilon, epsilon].
        **kwargs: arguments of `Term`.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.types import Batch, TextInputs
        >>> objective = Supervised(random_bert(), terms={"pgd": PGD(epsilon=0.1, search=Search(num_steps=5))}).eval()
        >>> losses = objective.losses(Batch(TextInputs.of_ids([[1, 5, 2]]), torch.tensor([0])))
        >>> bool(losses["pgd"] > losses["classification"])
        True

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, Section 3.1; after Madry et al. (2018), arXiv 1706.06083.
    Differs: the paper maximizes the loss by AdamW from zeros, and gives neither a number of steps nor a stopping rule.
        The authors' code starts with "uniform" and takes at most 100 steps with `search.tolerance: 0.005` and
        `search.stop: batch`, so the search ends at its third step. The authors' code does not divide gradients by
        epsilon, so AdamW's own epsilon shortens the steps.
    """

    def __init__(
        self,
        weight: Weight = 0.5,
        epsilon: float = 1e-5,
        search: Search = DEFAULT_SEARCH,
        step_rule: StepRule = "adamw",
        initialization: Initialization = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, **kwargs)
        require_choices(
            {"step_rule": StepRule, "initialization": Initialization},
            {"step_rule": step_rule, "initialization": initialization},
        )
        if epsilon <= 0:
            raise ValueError(f"epsilon is {epsilon}: give a number above 0")
        self.epsilon = epsilon
        self.search = search
        self.step_rule: StepRule = step_rule
        self.initialization: Initialization = initialization
        self.independent_of_batch = search.independent_of_batch

    def needs(self, network: Classifier) -> Needs:
        return Needs(embeds=True, readout=False)

    def passes(self, num_tokens: int) -> float:
        return 2.0 * self.search.num_steps + 3.0

    def prepare(self, task: Task) -> Minimum:
        worst = worst_variable(
            task, self.search, epsilon=self.epsilon, step_rule=self.step_rule, initialization=self.initialization
        )
        return worst._replace(variable=require_finite(worst.variable, task.batch.index, "adversarial noise"))

    def value(self, clean: CleanPass, prepared: Minimum) -> TermValue:
        assert clean.embeds is not None
        noise = bounded_noise(prepared.variable, self.epsilon, clean.inputs.attention_mask).to(clean.embeds.dtype)
        adversarial = clean.again(clean.inputs, clean.embeds + noise, output_readout=False)
        return TermValue(clean.task.losses(adversarial.logits), {"inner_steps": prepared.num_steps.float().mean()})
