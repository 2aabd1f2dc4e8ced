"""A planted problem, a trainer that writes nothing, and a teacher on disk for the tests of objectives."""

import pytest
import torch

from lightning_xai.objectives.laws import PLANTED, loader, planted_batch, quiet_trainer
from lightning_xai.objectives.supervised import Supervised
from tests.conftest import tiny_classifier

__all__ = ["PLANTED", "fast_optimizer", "loader", "planted_batch", "quiet_trainer", "save_teacher", "teacher_path"]


def fast_optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2)


def save_teacher(network, path) -> str:
    """Writes the checkpoint that a run with `network` would leave."""
    objective = Supervised(network)
    checkpoint = {"state_dict": objective.state_dict()}
    objective.on_save_checkpoint(checkpoint)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(checkpoint, path)
    return str(path)


@pytest.fixture
def teacher_path(tmp_path) -> str:
    """A checkpoint of the tiny PLM-CA."""
    return save_teacher(tiny_classifier("plm_ca", seed=1), tmp_path / "teacher.ckpt")
