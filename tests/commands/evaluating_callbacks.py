"""Callbacks for configurations of tests: two fail, at the end of a test or in training, and one logs a number."""

from typing import ClassVar

from lightning import Callback


class FailsAfterTest(Callback):
    only_evaluates: ClassVar[bool] = True

    def on_test_end(self, trainer, pl_module) -> None:
        raise ValueError("the evaluation failed")


class FailsInLastEpoch(Callback):
    """Stands for a kill in the last epoch; declares that it only evaluates, so that the run goes on without it."""

    only_evaluates: ClassVar[bool] = True

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:
        if trainer.current_epoch == trainer.max_epochs - 1:
            raise ValueError("killed")


class LogsProbe(Callback):
    def on_validation_epoch_end(self, trainer, pl_module) -> None:
        pl_module.log("val/probe", 2.0)
