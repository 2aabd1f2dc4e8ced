"""Checkpoints are written whole, and a user's own way of writing them is kept."""

import pytest
import torch
from lightning import Trainer
from lightning.fabric.plugins import TorchCheckpointIO

from lightning_xai.commands.checkpoint_io import WholeCheckpointIO, check_epochs_left, use_whole_checkpoints


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


@pytest.mark.parametrize(
    ("current", "is_last_batch", "trained"),
    [
        ({"started": 3, "processed": 3}, True, 3),  # after an epoch
        ({"started": 3, "processed": 2}, True, 3),  # after the last validation within an epoch
        ({"started": 3, "processed": 2}, False, 2),  # after an earlier validation within an epoch
    ],
)
def test_a_checkpoint_without_an_epoch_left_is_refused(tmp_path, current, is_last_batch, trained):
    loop = {"epoch_progress": {"current": current}, "epoch_loop.batch_progress": {"is_last_batch": is_last_batch}}
    file = str(tmp_path / "best.ckpt")
    torch.save({"format": 2, "network": {}, "state_dict": {}, "loops": {"fit_loop": loop}}, file)
    for max_epochs in (trained + 1, -1, None):
        check_epochs_left(file, max_epochs)
    with pytest.raises(ValueError, match=f"trained for {trained} epochs already, but trainer.max_epochs is {trained}"):
        check_epochs_left(file, trained)
