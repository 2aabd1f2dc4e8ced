"""Trains a network under constraints on terms or on the classification loss, by dual ascent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from lightning import LightningDataModule, Trainer
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor

from lightning_xai.functional.choices import require_choices
from lightning_xai.models.base import Classifier
from lightning_xai.objectives.bounds import (
    LOGGED_STEPS,
    BoundPreset,
    bound_run,
    bounds_of_runs,
    check_same_settings,
    options_of_bound_run,
)
from lightning_xai.objectives.checks import check_unscaled
from lightning_xai.objectives.constraint_checks import TASK, check_constraints, check_numbers, logged_name
from lightning_xai.objectives.dual_ascent import Constraint, DualAscent
from lightning_xai.objectives.schedules import num_limited_steps
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.base import Term
from lightning_xai.objectives.terms.epoch_means import smaller
from lightning_xai.objectives.terms.weights import weighted_sum
from lightning_xai.runs.folder import RunFolder
from lightning_xai.types import Batch

DualDecay = Literal["network", "constant"]


class Constrained(Supervised):
    """Minimizes the classification loss and the unconstrained terms, and keeps constrained terms below their bounds.

    The loss is task_weight * classification + the sum of weight * term over the unconstrained terms + the sum of
    alpha * (term - bound) over the constrained terms. After each step of the network's optimizer, the dual optimizer
    updates the multipliers alpha. This update depends on the violations (term - bound), averaged over all micro-batches
    and processes of the network's step. With the constraint "task", the classification loss is constrained, and the
    unconstrained terms are minimized.

    An epoch can become the best checkpoint only if every constrained loss in validation is below 1.1 times the
    `validation_bound` of its Constraint. Among epochs with equal values of the monitored metric, the latest is the
    best. If no epoch meets the bounds, the run ends without a best checkpoint and is not tested.

    Gradient accumulation and gradient clipping are arguments of this class, because this class calls the optimizer
    itself. Lightning then refuses the trainer's own options for accumulation and clipping.

    Args:
        network: the classifier.
        constraints: name of a term, or "task" for the classification loss -> the bound on this loss.
        terms: name -> term. Leave the `weight` of a constrained term at its default, since alpha replaces the weight.
        dual_optimizer: function that returns the optimizer of alpha.
        dual_decay: schedule of alpha's learning rate. With "network", alpha's learning rate has the same warm-up and
            decay as the network's; with "constant", it is constant.
        averaging: factor of the moving average of violations, as in `DualAscent`.
        accumulate_grad_batches: number of micro-batches in an optimizer step.
        gradient_clip_val: largest L2 norm of the network's gradient; None for no clipping.
        bound_seeds: number of runs, each with another seed, from which each bound "auto" is computed.
        bound_preset: the training losses from which each bound "auto" is computed: "paper" uses means over epochs,
            "code" the losses of single micro-batches.
        bound_margin: in training, a bound "auto" is this factor times the smallest loss; 1.5 in the paper. In a short
            training, losses are not smaller in training than in validation. Then choose a factor near the 1.1 of
            validation: else alpha may fall to 0 before an epoch meets the bounds.
        bounds_dir: folder of the runs from which bounds "auto" are computed; by default, the folder of the experiment
            with "_bounds" added to its name. With this option, another experiment uses the same runs.
        only: name of a constraint. If given, only the loss of this constraint is minimized, and nothing is constrained.
            The runs that find a bound "auto" set this option.
        **kwargs: arguments of `Supervised`.

    Attributes:
        bound_met: [] bool, whether any validation so far met all constraints.

    Raises:
        ValueError: a constraint names a term that does not exist, a constrained loss has a weight other than its
            default, no other loss is minimized, or a number is out of range.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.terms.input_gradient import InputGradient
        >>> terms = {"igr": InputGradient()}
        >>> objective = Constrained(random_bert(), {"igr": Constraint(bound=0.1)}, terms)
        >>> objective.dual.alpha
        tensor([1.])

    Reference: Ferreira et al. (2024), "Explanation Regularisation through the Lens of Attributions", arXiv 2407.16693,
        Section 3.
    Differs: the authors' code updates alpha twice in a step, by the network's optimizer and by the dual optimizer.
        Here, only the dual optimizer updates alpha.
    """

    bound_met: Tensor

    def __init__(
        self,
        network: Classifier,
        constraints: dict[str, Constraint],
        terms: dict[str, Term] | None = None,
        dual_optimizer: OptimizerCallable = lambda p: torch.optim.RMSprop(p, lr=0.05),
        dual_decay: DualDecay = "network",
        averaging: float = 0.0,
        accumulate_grad_batches: int = 1,
        gradient_clip_val: float | None = None,
        bound_seeds: int = 3,
        bound_preset: BoundPreset = "paper",
        bound_margin: float = 1.5,
        bounds_dir: str | None = None,
        only: str | None = None,
        **kwargs: Any,
    ) -> None:
        check_constraints(constraints, terms or {}, kwargs.get("task_weight", 1.0))
        for name, term in (terms or {}).items():
            term.validate |= name in constraints
        super().__init__(network, terms=terms, **kwargs)
        require_choices(
            {"dual_decay": DualDecay, "bound_preset": BoundPreset},
            {"dual_decay": dual_decay, "bound_preset": bound_preset},
        )
        check_numbers(accumulate_grad_batches, gradient_clip_val, bound_seeds, bound_margin)
        if only is not None and only not in constraints:
            raise ValueError(f"`only` is {only!r}, which is no constraint: choose one of {', '.join(constraints)}")
        self.automatic_optimization = False
        self.bound_seeds = bound_seeds
        self.bound_preset: BoundPreset = bound_preset
        self.bound_margin, self.bounds_dir = bound_margin, bounds_dir
        self.only = only
        self.constraints = constraints
        self.dual = DualAscent(len(constraints), dual_optimizer, averaging)
        self.dual_optimizer = dual_optimizer
        self.dual_decay: DualDecay = dual_decay
        self.accumulate_grad_batches = accumulate_grad_batches
        self.gradient_clip_val = gradient_clip_val
        self.register_buffer("bound_met", torch.tensor(False))
        self.may_be_best = False
        self._violations: list[Tensor] = []  # one tensor [number of constraints] per micro-batch of this step

    def combined(self, own_loss: Tensor, values: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
        if self.only is not None:
            return own_loss if self.only == TASK else values[self.only]
        free = {name: weight for name, weight in weights.items() if name not in self.constraints}
        total = weighted_sum(values, free) if TASK in self.constraints else super().combined(own_loss, values, free)
        losses = {TASK: own_loss, **values}
        violations = torch.stack([losses[name] - float(limit.bound) for name, limit in self.constraints.items()])
        self._violations.append(violations.detach())
        return total + (self.dual.alpha.detach().clone() * violations).sum()

    def weights_now(self) -> dict[str, float]:
        if self.only is not None:
            return {} if self.only == TASK else {self.only: 1.0}
        return super().weights_now() | {name: 1.0 for name in self.constraints if name != TASK}

    def trained_terms(self) -> dict[str, Term]:
        if self.only is not None:
            return {name: term for name, term in self.used_terms().items() if name == self.only}
        constrained = {name: term for name, term in self.used_terms().items() if name in self.constraints}
        return super().trained_terms() | constrained

    def needs_validation(self, name: str) -> bool:
        return name in self.constraints or super().needs_validation(name)

    @property
    def minimizes_own_loss(self) -> bool:
        return self.only == TASK if self.only is not None else TASK in self.constraints or super().minimizes_own_loss

    @property
    def auto_bounds(self) -> list[str]:
        """Names of the constraints whose bound is still "auto": other runs minimize each of these losses alone."""
        return [name for name, limit in self.constraints.items() if limit.bound == "auto"]

    @property
    def minimized_alone(self) -> str | None:
        """The tag under which validation logs the loss named by `only`; None if `only` is None."""
        return None if self.only is None else logged_name(self.only)

    def runs_before(self, trainer: Trainer, data: LightningDataModule) -> list[str]:
        """Returns command-line options for the next run that computes an "auto" bound; [] if these runs are finished.

        Raises:
            ValueError: a finished run for a bound differs from this run in settings that affect the smallest loss.
        """
        for name, seed, run in self._bound_runs(trainer):
            if not run.is_finished:
                return options_of_bound_run(run, name, seed)
            check_same_settings(RunFolder(Path(trainer.default_root_dir)), run, name)
        return []

    def runs_after(self, trainer: Trainer, data: LightningDataModule) -> list[str]:
        """Returns []: nothing is trained after this run."""
        return []

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage == "fit" and self._trainer is not None:  # there is no trainer while laws.py checks the objective
            check_unscaled(str(self.trainer.precision), type(self).__name__)
        if stage != "fit" or self.only is not None or not self.auto_bounds:
            return
        runs = self._bound_runs(self.trainer)
        for name, bounds in bounds_of_runs(runs, self.bound_preset, self.bound_margin).items():
            self.constraints[name] = Constraint(*bounds)

    @property
    def bounds(self) -> dict[str, list[float | None]]:
        """Name of a constraint -> [bound in training, bound in validation], for the manifest and checkpoints."""
        known = {name: limit for name, limit in self.constraints.items() if limit.bound != "auto"}
        return {name: [float(limit.bound), limit.validation_bound] for name, limit in known.items()}

    @property
    def result_facts(self) -> dict[str, Any]:
        return {**super().result_facts, **({"bounds": self.bounds} if self.bounds else {})}

    def _bound_runs(self, trainer: Trainer) -> list[tuple[str, int, RunFolder]]:
        names = self.auto_bounds if self.only is None else []
        run, seeds = RunFolder(Path(trainer.default_root_dir)), range(self.bound_seeds)
        return [(name, seed, bound_run(run, name, seed, self.bounds_dir)) for name in names for seed in seeds]

    def shown_weight(self, name: str) -> str:
        limit = self.constraints.get(name)
        if self.only is not None:
            return "alone" if name == self.only else "0"
        return super().shown_weight(name) if limit is None else limit.shown

    @property
    def own_weight(self) -> float:
        if self.only is not None:
            return float(self.only == TASK)
        return 0.0 if TASK in self.constraints else super().own_weight

    def final_weights(self) -> dict[str, float]:
        if self.only is not None:
            return {} if self.only == TASK else {self.only: 1.0}
        return {name: weight for name, weight in super().final_weights().items() if name not in self.constraints}

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        self.manual_backward(loss / self.accumulate_grad_batches)
        number = batch_idx + 1
        if self.only is not None and (self.trainer.global_step + 1) % LOGGED_STEPS == 0:
            self.minima = smaller(self.minima, {f"batch/{self.only}": float(loss.detach())})
        if number % self.accumulate_grad_batches == 0 or number == self.trainer.num_training_batches:
            self._step()
        return loss.detach()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        super().on_train_batch_start(batch, batch_idx)
        if batch_idx % self.accumulate_grad_batches == 0:
            self._violations = []  # also discards violations from a preflight before the fit

    def num_steps(self) -> int:
        super().num_steps()  # loads the data, which sets trainer.num_training_batches
        trainer = self.trainer
        num_batches = trainer.num_training_batches / self.accumulate_grad_batches
        return num_limited_steps(num_batches, trainer.max_epochs or 0, trainer.max_steps)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.gradient_clip_val is not None:  # here, so that callbacks have seen the gradient before it is clipped
            self.clip_gradients(optimizer, gradient_clip_val=self.gradient_clip_val, gradient_clip_algorithm="norm")

    def on_validation_epoch_end(self) -> None:
        super().on_validation_epoch_end()
        if not self.is_in_training or self.only is not None:
            self.may_be_best = True
            return
        logged = self.trainer.callback_metrics
        losses = {name: float(logged[logged_name(name)]) for name in self.constraints}
        self.may_be_best = all(limit.is_met(losses[name]) for name, limit in self.constraints.items())
        self.bound_met |= self.may_be_best

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint["bounds"] = self.bounds
        checkpoint["dual_optimizer"] = self.dual.optimizer_state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        self.dual.load_optimizer_state(checkpoint.get("dual_optimizer"))
        for name, bounds in checkpoint.get("bounds", {}).items():
            if name in self.auto_bounds:  # in a test; a fit has already computed its bounds
                self.constraints[name] = Constraint(*bounds)

    def _step(self) -> None:
        optimizer: Any = self.optimizers()
        scheduler: Any = self.lr_schedulers()
        rate_factor = 1.0
        if self.dual_decay == "network":
            rate_factor = scheduler.lr_lambdas[0](scheduler.last_epoch)
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        if self.only is not None:
            return
        mean = torch.stack(self._violations).mean(dim=0)
        mean = self.trainer.strategy.reduce(mean, reduce_op="mean")
        self.dual.step(mean, rate_factor)
        for kind, values in {"alpha": self.dual.alpha, "violation": mean}.items():
            self.log_dict({f"train/{kind}_{n}": v for n, v in zip(self.constraints, values, strict=True)})
