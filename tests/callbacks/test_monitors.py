"""Values that callbacks monitor, and those that are never logged."""

import pytest
from lightning import Callback
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint

from lightning_xai.callbacks.monitors import Monitor, check_train_monitors, monitors_of


def test_only_callbacks_with_a_monitored_value_are_listed_by_the_name_that_users_know():
    best = ModelCheckpoint(monitor="val/accuracy", mode="max", filename="best")
    last = ModelCheckpoint(monitor=None)
    mine = ModelCheckpoint(monitor="val/map", mode="max", filename="mine")
    stopping = EarlyStopping("val/log_loss", strict=False)
    assert list(monitors_of([best, last, LearningRateMonitor(), mine, Callback(), stopping])) == [
        Monitor("checkpoint", "val/accuracy", "max"),
        Monitor("ModelCheckpoint", "val/map", "max"),
        Monitor("EarlyStopping", "val/log_loss", "min", is_required=False),
    ]


def test_a_training_loss_that_the_objective_lacks_is_refused():
    check_train_monitors([EarlyStopping("train/igr")], ["loss", "igr"])
    with pytest.raises(ValueError, match="EarlyStopping.monitor is 'train/vat', .*choose one of train/loss, train/igr"):
        check_train_monitors([EarlyStopping("train/vat")], ["loss", "igr"])


@pytest.mark.parametrize("callback", [EarlyStopping("val/vat"), EarlyStopping("train/vat", strict=False)])
def test_validation_values_and_values_that_may_be_missing_are_not_checked_here(callback):
    check_train_monitors([callback], ["loss"])
