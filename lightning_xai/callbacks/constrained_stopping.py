"""Early stopping for the objective `Constrained`, which trains under constraints."""

from __future__ import annotations

from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping


class ConstrainedStopping(EarlyStopping):
    """Ends the training of the objective `Constrained` when the monitored loss stops falling.

    Until an epoch meets the objective's bounds, the training ends after `patience` epochs in a row without a lower
    loss. The first epoch that meets the bounds starts the comparison anew; from then on, the training ends after
    `patience_when_met` such epochs. A bound "auto" is found by a run that minimizes one loss alone; such a run monitors
    this loss.

    Args:
        monitor: name of a logged loss.
        patience: number of epochs in a row without a lower loss that end the training before the bounds are met.
        patience_when_met: number of epochs in a row without a lower loss that end the training after the bounds are
            met.

    Example:
        >>> ConstrainedStopping(patience=3).patience
        3

    Reference: Ferreira et al. (2024), "Explanation Regularisation through the Lens of Attributions", arXiv 2407.16693;
        the default numbers are those of the authors' code.
    """

    def __init__(self, monitor: str = "val/log_loss", patience: int = 10, patience_when_met: int = 5) -> None:
        super().__init__(monitor, patience=patience, mode="min")
        if min(patience, patience_when_met) < 1:
            raise ValueError(f"patience is {patience} and patience_when_met {patience_when_met}: give at least 1")
        self.patience_when_met = patience_when_met
        self.is_met = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.monitor = getattr(pl_module, "minimized_alone", None) or self.monitor
        super().setup(trainer, pl_module, stage)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.is_met and bool(getattr(pl_module, "bound_met", False)):
            self.is_met = True
            self.patience, self.wait_count, self.best_score = self.patience_when_met, 0, torch.tensor(torch.inf)
        super().on_validation_end(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "is_met": self.is_met}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.is_met = state_dict["is_met"]
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "is_met"})
