"""Writes the trainer's checkpoints so that an interrupted write leaves the previous file intact, and checks others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning import Trainer
from lightning.fabric.plugins import CheckpointIO, TorchCheckpointIO

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.models.checkpoints.checkpoint import read_checkpoint
from lightning_xai.runs.files.checkpoint_files import require_whole, save_checkpoint
from lightning_xai.runs.progress import say


class WholeCheckpointIO(TorchCheckpointIO):
    """A CheckpointIO that saves checkpoints atomically and refuses to load incomplete ones.

    A local checkpoint is written to a temporary file, which is renamed when it is complete.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "last.ckpt")
        >>> WholeCheckpointIO().save_checkpoint({"epoch": 3}, file)
        >>> WholeCheckpointIO().load_checkpoint(file)
        {'epoch': 3}
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Saves a checkpoint atomically.

        Lightning's own method saves it if the path is remote, such as s3://, or if `storage_options` are given.
        """
        if "://" in str(path) or storage_options is not None:
            super().save_checkpoint(checkpoint, path, storage_options)
        else:
            save_checkpoint(checkpoint, Path(path))

    def load_checkpoint(self, path: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Loads a checkpoint.

        Raises:
            ValueError: the file is incomplete.
        """
        if Path(path).is_file():
            require_whole(Path(path))
        return super().load_checkpoint(path, *args, **kwargs)


def check_epochs_left(path: str, max_epochs: int | None) -> None:
    """Raises ValueError if a fit that continues a checkpoint would have no epoch left.

    Args:
        path: the checkpoint.
        max_epochs: the trainer's largest number of epochs; None or -1 if there is no limit.

    Example:
        >>> import tempfile, torch
        >>> file = Path(tempfile.mkdtemp(), "last.ckpt")
        >>> loops = {"fit_loop": {"epoch_progress": {"current": {"started": 3, "processed": 3}}}}
        >>> torch.save({"format": 2, "network": {}, "state_dict": {}, "loops": loops}, file)
        >>> check_epochs_left(str(file), max_epochs=9)
    """
    loop = read_checkpoint(path)["loops"]["fit_loop"]
    epochs = loop["epoch_progress"]["current"]
    is_in_epoch = epochs["started"] > epochs["processed"]  # a validation within an epoch has written the checkpoint
    trained = epochs["processed"] + (is_in_epoch and loop["epoch_loop.batch_progress"]["is_last_batch"])
    if max_epochs not in (None, -1) and trained >= max_epochs:
        raise ValueError(
            f"{path} has been trained for {quantity(trained, 'epoch')} already, but trainer.max_epochs is "
            f"{max_epochs}: set it above {trained}, or leave out --ckpt_path to begin a new training"
        )


def use_whole_checkpoints(trainer: Trainer) -> None:
    """Sets the CheckpointIO of a trainer to WholeCheckpointIO, unless the user chose another one.

    Example:
        >>> trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
        >>> use_whole_checkpoints(trainer)
        >>> type(trainer.strategy.checkpoint_io).__name__
        'WholeCheckpointIO'
    """
    chosen: CheckpointIO = trainer.strategy.checkpoint_io
    if type(chosen) is TorchCheckpointIO:
        trainer.strategy.checkpoint_io = WholeCheckpointIO()
    else:
        say(f"checkpoints are written by {type(chosen).__name__}: if this process is killed, a file may be incomplete")
