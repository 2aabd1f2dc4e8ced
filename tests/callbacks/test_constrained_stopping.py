"""Early stopping whose patience begins anew when the bounds are met."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning import Trainer

from lightning_xai.callbacks.constrained_stopping import ConstrainedStopping
from lightning_xai.objectives.constrained import Constrained
from lightning_xai.objectives.dual_ascent import Constraint
from lightning_xai.objectives.laws import loader, quiet_trainer
from lightning_xai.objectives.terms.base import Term, TermValue
from tests.conftest import tiny_classifier


class LogitSize(Term):
    def value(self, clean, prepared):
        return TermValue(clean.output.logits.square().mean(dim=1))


def epochs_until_stop(stopping: ConstrainedStopping, losses: list[float], met_from: int) -> int:
    """Returns the number of epochs after which the callback ends the training."""
    trainer: Any = Trainer(logger=False, accelerator="cpu", enable_progress_bar=False)
    trainer.state.fn = "fit"
    for epoch, loss in enumerate(losses):
        trainer._callback_metrics = {}
        trainer._logger_connector._callback_metrics = {"val/log_loss": torch.tensor(loss)}
        module: Any = SimpleNamespace(bound_met=torch.tensor(epoch >= met_from))
        stopping.on_validation_end(trainer, module)
        if trainer.should_stop:
            return epoch + 1
    return 0


@pytest.mark.parametrize(
    ("met_from", "expected"),
    [
        (99, 4),  # the best is epoch 0, then 3 epochs of patience
        (2, 5),  # epoch 2 meets the bound and is the new best, then 2 epochs of patience
    ],
)
def test_patience_begins_anew_with_the_first_epoch_that_meets_the_bounds(met_from, expected):
    stopping = ConstrainedStopping(patience=3, patience_when_met=2)
    assert epochs_until_stop(stopping, [0.1, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9], met_from) == expected


def test_state_keeps_the_phase():
    before, after = ConstrainedStopping(patience=3), ConstrainedStopping(patience=3)
    epochs_until_stop(before, [0.5, 0.4], met_from=1)
    after.load_state_dict(before.state_dict())
    assert after.is_met and after.patience == 5 and after.best_score == before.best_score


@pytest.mark.slow
def test_a_run_that_finds_a_bound_is_ended_by_the_loss_that_it_minimizes(tmp_path):
    stopped = []
    for only in ("size", None):
        stopping = ConstrainedStopping(patience=1)
        objective = Constrained(
            tiny_classifier("plm_ca", dropout=0.0), {"size": Constraint(1e-9)}, {"size": LogitSize()}, only=only,
            optimizer=lambda p: torch.optim.SGD(p, lr=0.01), warmup_fraction=0.0,
        )  # fmt: skip
        trainer = quiet_trainer(tmp_path, max_epochs=2, callbacks=[stopping])
        data = {"num_classes": 5, "multilabel": True}
        trainer.fit(objective, loader(2, **data), loader(1, **data))
        stopped.append((stopping.monitor, stopping.best_score.item()))
        assert trainer.callback_metrics[stopping.monitor].item() == pytest.approx(stopping.best_score.item())
    assert [monitor for monitor, _ in stopped] == ["val/size", "val/log_loss"]


def test_patience_below_1_is_refused():
    with pytest.raises(ValueError, match="set both above 0"):
        ConstrainedStopping(patience=0)
