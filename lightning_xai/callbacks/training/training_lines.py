"""Progress lines during training: step, loss, validation metrics, tokens per second and time left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning import Trainer

from lightning_xai.callbacks.training.token_rate import TokenRate, real_tokens
from lightning_xai.runs.pace import Pace, time_left
from lightning_xai.runs.splits import VALIDATION, log_prefix


def epoch_name(epoch: int, max_epochs: int | None) -> str:
    """Returns a name such as "epoch 1 of 3"; `epoch` counts from 0.

    Example:
        >>> epoch_name(0, 3), epoch_name(0, None)
        ('epoch 1 of 3', 'epoch 1')
    """
    return f"epoch {epoch + 1}" + (f" of {max_epochs}" if max_epochs is not None and max_epochs > 0 else "")


def validation_numbers(trainer: Trainer) -> dict[str, float]:
    """Returns the classification metrics of the last validation, without the prefix "val/".

    The metric that chooses the best checkpoint comes first, even if it is an attribution metric. All other attribution
    metrics are left out.

    Example:
        >>> from lightning.pytorch.callbacks import ModelCheckpoint
        >>> best = ModelCheckpoint("checkpoints", monitor="val/aml/aopc")
        >>> trainer = Trainer(logger=False, accelerator="cpu", callbacks=[best])
        >>> trainer.callback_metrics.update({"val/accuracy": 0.5, "val/er/random/auprc": 0.1, "val/aml/aopc": 0.7})
        >>> validation_numbers(trainer)
        {'aml/aopc': 0.7, 'accuracy': 0.5}
    """
    prefix, logged = f"{log_prefix(VALIDATION)}/", trainer.callback_metrics
    monitor = getattr(trainer.checkpoint_callback, "monitor", None)
    names = [name for name in logged if name.startswith(prefix) and "/" not in name.removeprefix(prefix)]
    if monitor in logged and str(monitor).startswith(prefix):
        names = list(dict.fromkeys([str(monitor), *names]))
    return {name.removeprefix(prefix): float(logged[name]) for name in names}


class TrainingLines:
    """Composes the progress lines for the training of one run in this process.

    Args:
        trainer: the trainer, whose training has just started or resumed.
        pace: decides when a line about steps is due, and estimates the time left.

    Example:
        >>> lines = TrainingLines(Trainer(max_epochs=3, logger=False, accelerator="cpu"))
        >>> lines.numbers({"loss": 0.5}, {"accuracy": 0.75})
        'loss 0.5, val accuracy 0.75'
    """

    def __init__(self, trainer: Trainer, pace: Pace | None = None) -> None:
        self.pace = pace or Pace()
        self.rate = TokenRate()
        # step at which this process starts: above 0 if it resumes a run. Earlier steps do not affect the estimated time
        self._first_step = trainer.global_step
        self._total: float | None = None

    def add(self, batch: Any) -> None:
        self.rate.add(real_tokens(batch))

    def step(self, trainer: Trainer) -> str:
        """Returns a line such as "step 12 of 375 (epoch 1 of 3): loss 0.69, 2,510 tokens/s, about 2 min left"."""
        epoch = epoch_name(trainer.current_epoch, trainer.max_epochs)
        return f"{self._steps(trainer)} ({epoch}): {self._facts(trainer, {})}"

    def epoch(self, trainer: Trainer) -> str:
        """Returns a line like "epoch 1 of 3 (step 125 of 375): loss 0.5, val accuracy 0.75, about 2 min left"."""
        epoch = epoch_name(trainer.current_epoch, trainer.max_epochs)
        return f"{epoch} ({self._steps(trainer)}): {self._facts(trainer, validation_numbers(trainer))}"

    def numbers(self, losses: Mapping[str, Any], validation: Mapping[str, float]) -> str:
        """Returns a text such as "loss 0.5, val accuracy 0.75"."""
        shown = [f"loss {float(losses['loss']):.4g}"] if "loss" in losses else []
        of_validation = [f"{name} {value:.4g}" for name, value in validation.items()]
        return ", ".join([*shown, *(["val " + ", ".join(of_validation)] if of_validation else [])])

    def _facts(self, trainer: Trainer, validation: Mapping[str, float]) -> str:
        tokens, seconds = self.rate.take()
        rate = float(tokens) * trainer.world_size / seconds if seconds else 0.0
        done, total = trainer.global_step - self._first_step, self._num_steps(trainer) - self._first_step
        left = self.pace.seconds_left(done=done, total=total) if done < total else None
        facts = [self.numbers(trainer.progress_bar_metrics, validation), f"{rate:,.0f} tokens/s" if rate else ""]
        return ", ".join(filter(None, facts)) + time_left(left)

    def _steps(self, trainer: Trainer) -> str:
        total = self._num_steps(trainer)
        return f"step {trainer.global_step:,}" + (f" of {total:,.0f}" if total < float("inf") else "")

    def _num_steps(self, trainer: Trainer) -> float:
        if self._total is None:
            self._total = float(trainer.estimated_stepping_batches)
        return self._total
