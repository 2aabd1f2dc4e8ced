"""The seconds of a training add up over the processes that a kill separates."""

import time

from lightning import LightningModule

from lightning_xai.callbacks.training.training_clock import TrainingClock
from lightning_xai.runs.folder import RunFolder
from tests.callbacks.conftest import planted_data, trainer


def test_resumed_training_goes_on_counting_from_its_last_finished_epoch(tmp_path):
    run, quiet = RunFolder(tmp_path), trainer(tmp_path)
    run.write_manifest(status="running", training_seconds=100.0)
    clock = TrainingClock(began := time.monotonic() - 10)
    clock.on_fit_start(quiet, LightningModule())
    clock.on_train_epoch_end(quiet, LightningModule())
    assert 110 <= run.manifest["training_seconds"] <= round(100 + time.monotonic() - began, 3)
    assert not run.manifest["trained"]


def test_manifest_says_when_the_training_has_ended(objective, tmp_path):
    fit = trainer(tmp_path, TrainingClock(time.monotonic()), max_epochs=1, enable_checkpointing=False)
    fit.fit(objective, datamodule=planted_data())
    assert RunFolder(tmp_path).manifest["trained"]


def test_dry_run_writes_no_manifest(objective, tmp_path):
    trainer(tmp_path, TrainingClock(time.monotonic()), fast_dev_run=True).fit(objective, datamodule=planted_data())
    assert not RunFolder(tmp_path).manifest_file.exists()
