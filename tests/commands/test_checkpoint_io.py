"""Checkpoints are written whole, and a user's own way of writing them is kept."""

import pytest
import torch
from lightning import Trainer
from lightning.fabric.plugins import TorchCheckpointIO

from lightning_xai.commands.checkpoint_io import WholeCheckpointIO, use_whole_checkpoints


def test_a_write_that_fails_leaves_the_file_before(tmp_path):
    class Unwritable:
        def __reduce__(self):
            raise OSError("the disk is full")

    file, checkpoints = tmp_path / "last.ckpt", WholeCheckpointIO()
    checkpoints.save_checkpoint({"epoch": 3}, file)
    with pytest.raises(OSError, match="the disk is full"):
        checkpoints.save_checkpoint({"weights": torch.zeros(1000), "epoch": Unwritable()}, file)
    assert checkpoints.load_checkpoint(file) == {"epoch": 3}


def test_an_incomplete_file_is_refused(tmp_path):
    file, checkpoints = tmp_path / "last.ckpt", WholeCheckpointIO()
    checkpoints.save_checkpoint({"weights": torch.zeros(1000)}, file)
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(ValueError, match="last.ckpt"):
        checkpoints.load_checkpoint(file)


def test_a_checkpoint_io_of_the_user_stays_and_a_line_says_so(capsys):
    class Mine(TorchCheckpointIO):
        pass

    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, plugins=[Mine()])
    use_whole_checkpoints(trainer)
    assert type(trainer.strategy.checkpoint_io) is Mine
    assert "checkpoints are written by Mine: if this process is killed, a file may be" in capsys.readouterr().out
