"""Early stopping for the objective `Constrained`, which trains under constraints."""

from __future__ import annotations

from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping


class ConstrainedStopping(EarlyStopping):
    """Ends the training of the objective `Constrained` when the monitored loss stops falling.

    As long as no epoch has met the objective's bounds, training ends after `patience` epochs in a row without a new
    lowest loss. When an epoch meets the bounds for the first time, earlier losses no longer count. From then on,
    training ends after `patience_when_met` epochs in a row without a new lowest loss. If a bound is "auto", a separate
    run finds it by minimizing one loss alone. That run monitors this loss instead of `monitor`.

    Args:
        monitor: name of a logged loss.
        patience: as long as no epoch has met the bounds, training ends after this many epochs in a row without a new
            lowest loss.
        patience_when_met: the value that replaces `patience` once an epoch has met the bounds.

    Example:
        >>> ConstrainedStopping(patience=3).patience
        3

    Reference: Ferreira et al. (2024), "Explanation Regularisation through the Lens of Attributions", arXiv 2407.16693;
        the default numbers are those of the authors' code.
    """

    def __init__(self, monitor: str = "val/log_loss", patience: int = 10, patience_when_met: int = 5) -> None:
        super().__init__(monitor, patience=patience, mode="min")
        if min(patience, patience_when_met) < 1:
            raise ValueError(f"patience is {patience}, and patience_when_met is {patience_when_met}: set both above 0")
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
