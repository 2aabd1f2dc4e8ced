"""Checks that a command makes before it starts."""

from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.callbacks.constrained_stopping import ConstrainedStopping
from lightning_xai.chains.fresh import FRESH
from lightning_xai.chains.roar import ROAR
from lightning_xai.commands.setting_checks import check_chains, check_monitors, resolve_checkpoint
from lightning_xai.models.pretrained.pretrained_weights import WeightGaps
from lightning_xai.objectives.constrained import Constrained
from lightning_xai.objectives.dual_ascent import Constraint
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.input_gradient import InputGradient
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


def constrained(bounds: dict[str, Any], **arguments: Any) -> Constrained:
    constraints = {name: Constraint(bound) for name, bound in bounds.items()}
    return Constrained(tiny_classifier("bert"), constraints, {"igr": InputGradient(validate=True)}, **arguments)


@pytest.mark.parametrize("only", [None, "igr"], ids=["main run", "run for the bound"])
def test_stopping_by_a_value_that_runs_for_a_bound_do_not_minimize_is_refused(only):
    for name in ("val/log_loss", "val/accuracy"):
        stopping = EarlyStopping(name, mode="max" if name == "val/accuracy" else "min")
        with pytest.raises(ValueError, match=f"monitor is {name}, but .* bound of igr minimize only val/igr: use"):
            check_monitors(constrained({"igr": "auto"}, only=only), [stopping])
    for allowed in (EarlyStopping("val/loss"), EarlyStopping("val/igr"), ConstrainedStopping()):
        check_monitors(constrained({"igr": "auto"}, only=only), [allowed])
    check_monitors(constrained({"igr": 0.1}), [EarlyStopping("val/log_loss")])
    check_monitors(constrained({"igr": "auto"}, only=only), [ModelCheckpoint(monitor="val/log_loss")])


def test_the_loss_with_a_bound_is_no_monitor():
    swapped = constrained({"task": 0.4})
    for callback in (ModelCheckpoint(monitor="val/log_loss"), ConstrainedStopping()):
        message = "val/log_loss, which is not minimized, because it has a bound: monitor one of val/loss, val/igr"
        with pytest.raises(ValueError, match=message):
            check_monitors(swapped, [callback])
    check_monitors(swapped, [ModelCheckpoint(monitor="val/loss"), ConstrainedStopping("val/igr")])


def test_total_that_is_not_logged_is_not_offered_as_monitor():
    terms: dict[str, Any] = {"igr": InputGradient()}
    with pytest.raises(ValueError, match="because task_weight is 0: set `validate: true` for a term"):
        check_monitors(
            Supervised(tiny_classifier("bert"), terms=terms, task_weight=0.0), [EarlyStopping("val/log_loss")]
        )


def test_random_head_is_tested_only_as_the_initial_network(tmp_path, objective):
    objective.network.weight_gaps = WeightGaps(fresh=("classifier.weight",))
    run = RunFolder(tmp_path)
    with pytest.raises(ValueError, match="would be random: fit .* or explain it untrained with --ckpt_path initial"):
        resolve_checkpoint(run, None, objective, [])
    assert resolve_checkpoint(run, "initial", objective, []) is None
    with pytest.raises(ValueError, match="no checkpoint first: give a file, or 'best', 'last' or 'initial'"):
        resolve_checkpoint(run, "first", objective, [])
