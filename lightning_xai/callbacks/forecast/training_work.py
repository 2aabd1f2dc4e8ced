"""Estimates how much a training will have to compute, before it starts."""

from __future__ import annotations

from typing import Any, NamedTuple

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, Timer

from lightning_xai.callbacks.base import callbacks_of, data_of


class TrainingWork(NamedTuple):
    """How much one process has to compute in a training.

    Example:
        >>> work = TrainingWork(num_examples=5600, mean_tokens=50.0, passes=3.0, may_stop=False)
        >>> work.seconds(seconds_per_token=1e-4)
        84.0
    """

    num_examples: int  # number of examples that this process reads in all steps
    mean_tokens: float  # mean number of tokens of an example
    passes: float  # cost of a step, in forward passes
    may_stop: bool  # whether a callback may end the training early

    def seconds(self, seconds_per_token: float) -> float:
        """Returns the estimated seconds of the training, given the seconds per token of a forward pass."""
        return self.num_examples * self.mean_tokens * self.passes * seconds_per_token


def step_passes(module: LightningModule, num_tokens: int) -> float:
    """Returns the cost of a training step, in forward passes: the sum of the costs of the objective and its terms.

    Args:
        module: the objective. A module of another package costs 3: 1 for a forward pass and 2 for a backward pass.
        num_tokens: number of explainable tokens of an example.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.objectives.terms.vat import VAT
        >>> step_passes(Supervised(random_bert()), 9), step_passes(Supervised(random_bert(), terms={"vat": VAT()}), 9)
        (3.0, 10.0)
    """
    terms: Any = module.trained_terms().values() if hasattr(module, "trained_terms") else []  # type: ignore[operator]
    return float(getattr(module, "own_passes", 3.0)) + sum(term.passes(num_tokens) for term in terms)


def training_work(trainer: Trainer, module: LightningModule) -> TrainingWork | None:
    """Returns how much one process has to compute in a whole training, without its validations.

    Returns None if neither max_steps nor max_epochs limits the training, or if it has no batches.
    """
    data = data_of(trainer)
    rows, limit = data.split("train"), trainer.limit_train_batches
    epoch = len(data.sampler("train", shuffle=True))
    read = min(epoch, limit) if isinstance(limit, int) else int(epoch * limit)
    epochs = trainer.max_epochs or 0
    # an objective with constraints accumulates gradients itself, so its own accumulate_grad_batches is used
    batches_per_step = getattr(module, "accumulate_grad_batches", trainer.accumulate_grad_batches)
    batches = [trainer.max_steps * batches_per_step] if trainer.max_steps > 0 else []
    batches += [read * epochs] if epochs > 0 else []
    if not read or not batches or not min(batches):
        return None
    examples = round(len(rows) / trainer.world_size * min(batches) / epoch)
    mean = float(rows.lengths.mean())
    may_stop = any(isinstance(callback, EarlyStopping | Timer) for callback in callbacks_of(trainer))
    return TrainingWork(examples, mean, step_passes(module, round(mean)), may_stop)
