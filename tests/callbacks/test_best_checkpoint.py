"""What a checkpoint knows about the best one, in the folder of its run, in a moved folder and in another run."""

import pytest
import torch
from lightning import LightningModule
from lightning.pytorch.callbacks import ModelCheckpoint

from lightning_xai.callbacks.best_checkpoint import BestCheckpoint
from tests.callbacks.conftest import trainer


def callback(folder) -> BestCheckpoint:
    return BestCheckpoint(folder, monitor="val/log_loss", filename="best")


@pytest.fixture
def saved(tmp_path) -> dict:
    """A checkpoint of a run in the folder "old" that EarlyStopping has ended."""
    before, stopped = callback(tmp_path / "old"), trainer(tmp_path)
    best = str(tmp_path / "old" / "best.ckpt")
    score = before.current_score = before.best_model_score = before.kth_value = torch.tensor(0.25)
    before.best_model_path = before.kth_best_model_path = best
    before.best_k_models = {best: score}
    stopped.should_stop = True
    checkpoint = {"callbacks": {before.state_key: before.state_dict()}}
    before.on_save_checkpoint(stopped, LightningModule(), checkpoint)
    return checkpoint


def loaded(folder, saved) -> tuple[BestCheckpoint, bool]:
    after, resumed = callback(folder), trainer(folder)
    after.on_load_checkpoint(resumed, LightningModule(), saved)
    after.load_state_dict(saved["callbacks"][after.state_key])
    return after, resumed.should_stop


def test_state_key_is_that_of_model_checkpoint(tmp_path):
    assert callback(tmp_path).state_key == ModelCheckpoint(tmp_path, monitor="val/log_loss").state_key


@pytest.mark.parametrize("folder", ["old", "moved"])
def test_whole_state_comes_back_in_the_folder_of_the_run(tmp_path, saved, folder):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "best.ckpt").touch()
    after, stopped = loaded(tmp_path / folder, saved)
    assert after.current_score == after.best_model_score == 0.25 and stopped
    assert list(after.best_k_models) == [after.best_model_path] == [str(tmp_path / folder / "best.ckpt")]


def test_run_that_starts_from_the_checkpoint_of_another_one_has_its_own_best(tmp_path, saved):
    with pytest.warns(UserWarning, match="The dirpath has changed"):
        after, stopped = loaded(tmp_path / "other", saved)
    assert after.current_score is None and after.best_k_models == {} and not stopped
