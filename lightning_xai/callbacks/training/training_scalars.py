"""Logs the learning rate, gradient norm and tokens per second during training."""

from __future__ import annotations

from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import FSDPStrategy
from torch import Tensor
from torch.optim import Optimizer

from lightning_xai.callbacks.training.token_rate import TokenRate, real_tokens


def gradient_norm(module: torch.nn.Module) -> Tensor:
    """Returns the L2 norm of all gradients of a module together, as a tensor of shape []; 0 if there are no gradients.

    Example:
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> layer(torch.tensor([3.0, 4.0])).backward()
        >>> gradient_norm(layer)
        tensor(5.)
    """
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    return torch.nn.utils.get_total_norm(gradients) if gradients else torch.zeros(())


class TrainingScalars(Callback):
    """Logs `train/learning_rate`, `train/gradient_norm` and `train/tokens_per_second` whenever Lightning logs losses.

    If Lightning logs the loss of a micro-batch after which the optimizer makes no step, the next step is logged.
    `train/learning_rate` is the learning rate of the optimizer's first parameter group. If the groups have different
    learning rates, `train/learning_rate/<group>` is the rate of each further group. The gradient norm is measured
    before clipping. Under FSDP, it is not logged, because FSDP splits gradients among processes. The tokens per second
    are a mean since the previous log. They count the tokens of all processes, without padding, and exclude the time of
    validations.

    The scalars are sent only to the loggers, so they change neither checkpoints nor monitored values.

    Example:
        >>> TrainingScalars().scalars
        {}
    """

    def __init__(self) -> None:
        self.scalars: dict[str, Any] = {}  # scalars of the current step that are still to be logged

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.scalars, self._rate, self._is_due = {}, TokenRate(), False

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        if optimizer is not trainer.optimizers[0] or not (self._is_due or _logs(trainer)):
            return  # with several optimizers (manual optimization), only the first optimizer is logged
        rates = [group["lr"] for group in optimizer.param_groups]
        self.scalars["train/learning_rate"] = rates[0]
        if len(set(rates)) > 1:
            self.scalars |= {f"train/learning_rate/{group}": rate for group, rate in enumerate(rates) if group}
        if not isinstance(trainer.strategy, FSDPStrategy):
            self.scalars["train/gradient_norm"] = gradient_norm(pl_module)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs, batch, batch_idx) -> None:
        self._rate.add(real_tokens(batch))
        self._is_due = not self.scalars and (self._is_due or _logs(trainer))
        if not self.scalars:
            return  # either this step is not logged, or the optimizer's step is still to come (gradient accumulation)
        tokens, seconds = self._rate.take()
        tokens = trainer.strategy.reduce(tokens.to(trainer.strategy.root_device).float(), reduce_op="sum")
        self.scalars["train/tokens_per_second"] = tokens / max(seconds, 1e-9)
        values = {name: float(value) for name, value in self.scalars.items()}
        for logger in trainer.loggers:
            logger.log_metrics(values, step=trainer.fit_loop.epoch_loop._batches_that_stepped)
        self.scalars = {}

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.training or trainer.state.fn == "fit":
            self._rate.pause()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == "fit":
            self._rate.resume()


def _logs(trainer: Trainer) -> bool:
    """Returns whether Lightning logs the losses of this step."""
    return bool(trainer.loggers) and trainer._logger_connector.should_update_logs
