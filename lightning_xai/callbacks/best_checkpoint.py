"""A ModelCheckpoint that keeps its best score when a killed run is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

STOPPED = "training_stopped"  # key in a checkpoint; the value tells whether training has been stopped early


class BestCheckpoint(ModelCheckpoint):
    """A ModelCheckpoint whose state is fully restored, even if the run was killed or its folder was moved.

    This class closes three gaps. When a fit is resumed, ModelCheckpoint does not restore `current_score`. If the folder
    was moved, ModelCheckpoint does not restore the best score either, so the next epoch would replace a better
    checkpoint. Lightning also does not store that EarlyStopping has ended the training, so a fit that is killed just
    after its early stop, and then resumed, would train for more epochs.

    `state_key` equals the key of ModelCheckpoint, so that either class can load the state that the other saved.

    Example:
        >>> import tempfile
        >>> before, after = (BestCheckpoint(tempfile.gettempdir(), monitor="val/log_loss") for _ in range(2))
        >>> before.current_score = 0.25
        >>> after.load_state_dict(before.state_dict())
        >>> after.current_score
        0.25
    """

    @property
    def state_key(self) -> str:
        return super().state_key.replace(type(self).__qualname__, ModelCheckpoint.__qualname__, 1)

    def check_monitor_top_k(self, trainer: Trainer, current: Tensor | None = None) -> bool:
        """Returns whether to save a checkpoint of the current epoch.

        If the objective's attribute `may_be_best` is False, the epoch is not saved. If the attribute is True, an epoch
        whose score equals the best score is saved too.
        """
        may_be_best = getattr(trainer.lightning_module, "may_be_best", None)
        if may_be_best is False:
            return False
        is_tie = may_be_best is not None and current is not None and bool(self.best_model_score == current)
        return is_tie or super().check_monitor_top_k(trainer, current)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = self._moved_here(state_dict)
        super().load_state_dict(state)
        if state["dirpath"] == self.dirpath:
            self.current_score = state["current_score"]

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint[STOPPED] = trainer.should_stop

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        state = checkpoint.get("callbacks", {}).get(self.state_key)
        # a checkpoint of another run may say that training was stopped early; this must not stop the present run
        if state is not None and self._moved_here(state)["dirpath"] == self.dirpath:
            trainer.should_stop = checkpoint.get(STOPPED, False)

    def _moved_here(self, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state with its paths changed to `self.dirpath`, if this folder contains the best checkpoint.

        Otherwise, returns the state unchanged.
        """
        folder = Path(str(self.dirpath))
        if not state["best_model_path"] or not (folder / Path(state["best_model_path"]).name).is_file():
            return state
        paths = {
            name: str(folder / Path(state[name]).name)
            for name in ("best_model_path", "kth_best_model_path", "last_model_path")
            if state[name]
        }
        best = {str(folder / Path(path).name): score for path, score in state["best_k_models"].items()}
        return state | paths | {"best_k_models": best, "dirpath": self.dirpath}
