"""The validation losses of a run's best checkpoint, read from TensorBoard's files."""

import pytest
import torch
from torch.utils.tensorboard import SummaryWriter

from lightning_xai.commands.validation_losses import best_validation_losses
from lightning_xai.runs.folder import RunFolder


def run_of(folder, *, steps: int, logged: dict[str, dict[int, float]], batches: int | None = None) -> RunFolder:
    """Returns a run whose best checkpoint is of step `steps`, with the given values: name -> step -> value."""
    (folder / "checkpoints").mkdir(parents=True)
    checkpoint: dict = {"global_step": steps}
    if batches is not None:
        checkpoint["loops"] = {"fit_loop": {"epoch_loop.state_dict": {"_batches_that_stepped": batches}}}
    torch.save(checkpoint, folder / "checkpoints" / "best.ckpt")
    with SummaryWriter(str(folder)) as writer:
        for name, values in logged.items():
            for step, value in values.items():
                writer.add_scalar(name, value, step)
    return RunFolder(folder)


VALUES = {"val/log_loss": {5: 0.75, 10: 0.5, 15: 0.25}, "val/igr": {5: 3.0, 10: 2.0, 15: 1.0}}


def test_values_are_those_of_the_last_validation_up_to_the_checkpoint(tmp_path):
    run = run_of(tmp_path, steps=10, logged=VALUES)
    assert best_validation_losses(run, ("log_loss", "igr")) == {"log_loss": 0.5, "igr": 2.0}


def test_steps_are_counted_in_batches_where_the_objective_accumulates(tmp_path):
    run = run_of(tmp_path, steps=5, logged=VALUES, batches=15)
    assert best_validation_losses(run, ("log_loss", "igr")) == {"log_loss": 0.25, "igr": 1.0}


def test_a_step_without_the_term_does_not_count(tmp_path):
    logged = {"val/log_loss": {5: 0.75, 10: 0.5}, "val/igr": {5: 3.0}}  # a test logged the loss alone at step 10
    run = run_of(tmp_path, steps=10, logged=logged)
    assert best_validation_losses(run, ("log_loss", "igr")) == {"log_loss": 0.75, "igr": 3.0}


def test_a_loss_that_was_not_logged_is_refused(tmp_path):
    run = run_of(tmp_path, steps=10, logged={"val/log_loss": {10: 0.5}})
    with pytest.raises(ValueError, match="logged no val/igr: train this run with a logger and with the term"):
        best_validation_losses(run, ("log_loss", "igr"))


def test_losses_without_a_common_step_are_refused(tmp_path):
    run = run_of(tmp_path, steps=10, logged={"val/log_loss": {5: 0.5}, "val/igr": {10: 2.0}})
    with pytest.raises(ValueError, match="never logged log_loss, igr at the same step up to its best checkpoint"):
        best_validation_losses(run, ("log_loss", "igr"))


def test_without_a_best_checkpoint_there_are_none(tmp_path):
    assert best_validation_losses(RunFolder(tmp_path), ("log_loss",)) is None
