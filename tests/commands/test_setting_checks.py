"""Checks that a command makes before it starts."""

import pytest
import torch

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.chains.fresh import FRESH
from lightning_xai.chains.roar import ROAR
from lightning_xai.commands.setting_checks import check_chains, resolve_checkpoint
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.runs.folder import RunFolder
from tests.conftest import tiny_classifier

NAMES = ["negative", "neutral", "positive"]


@pytest.fixture
def objective() -> Supervised:
    return Supervised(tiny_classifier("bert"))


@pytest.fixture
def checkpoint(objective, tmp_path) -> str:
    """A checkpoint of a network whose logits are those of NAMES, in this order."""
    saved = {"state_dict": objective.state_dict(), "class_names": NAMES}
    objective.on_save_checkpoint(saved)
    torch.save(saved, tmp_path / "best.ckpt")
    return str(tmp_path / "best.ckpt")


def test_checkpoint_of_the_same_classes_in_another_order_is_refused(objective, checkpoint, tmp_path):
    with pytest.raises(ValueError, match="class 0 is 'negative' in .*, but 'positive' in the data"):
        resolve_checkpoint(RunFolder(tmp_path), checkpoint, objective, NAMES[::-1])


@pytest.mark.parametrize("names", [NAMES, ["LABEL_0", "LABEL_1", "LABEL_2"]], ids=["same", "other words"])
def test_checkpoint_of_the_datas_classes_or_of_other_words_for_them_is_taken(objective, checkpoint, names, tmp_path):
    assert resolve_checkpoint(RunFolder(tmp_path), checkpoint, objective, names) == checkpoint


def test_two_chains_in_one_command_are_refused():
    callbacks = [ROAR({"gradient": Gradient()}), FRESH({"gradient": Gradient()})]
    with pytest.raises(ValueError, match="ROAR and FRESH are chains of runs"):
        check_chains(callbacks, tests_after_fit=True)


def test_chain_without_tests_is_refused():
    with pytest.raises(ValueError, match="set it to true"):
        check_chains([ROAR({"gradient": Gradient()})], tests_after_fit=False)
