"""Training under constraints: steps, ranks, checkpoints, and which epoch can be the best."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.data import DataLoader

from lightning_xai.callbacks.best_checkpoint import BestCheckpoint
from lightning_xai.callbacks.training.training_scalars import TrainingScalars
from lightning_xai.objectives.constrained import Constrained
from lightning_xai.objectives.constraint_checks import TASK
from lightning_xai.objectives.dual_ascent import Constraint
from lightning_xai.objectives.laws import BatchDataset
from lightning_xai.objectives.terms.base import Term, TermValue
from lightning_xai.objectives.terms.supervised_attention import SupervisedAttention
from tests.conftest import tiny_classifier
from tests.objectives.conftest import fast_optimizer, loader, planted_batch, quiet_trainer

DATA: dict[str, Any] = {"num_classes": 5, "multilabel": True}


class LogitSize(Term):
    def value(self, clean, prepared):
        return TermValue(clean.output.logits.square().mean(dim=1))


def still(parameters):
    return torch.optim.SGD(parameters, lr=0.0)


def rmsprop(parameters):
    return torch.optim.RMSprop(parameters, lr=0.05)


def constrained(bound: float = 0.5, *, dropout: float = 0.0, **arguments: Any) -> Constrained:
    arguments = {"optimizer": fast_optimizer, "warmup_fraction": 0.0, **arguments}
    constraints = {"size": Constraint(bound)}
    return Constrained(tiny_classifier("plm_ca", dropout=dropout), constraints, {"size": LogitSize()}, **arguments)


def test_loss_is_the_own_loss_and_alpha_times_the_violation():
    objective = constrained(0.3)
    objective.dual.alpha.fill_(2.5)
    losses = objective.losses(planted_batch(**DATA))
    expected = losses["classification"] + 2.5 * (losses["size"] - 0.3)
    assert losses["loss"].item() == pytest.approx(expected.item())


def test_swapped_form_minimizes_the_term_under_a_bound_on_the_own_loss():
    terms: dict[str, Term] = {"size": LogitSize(weight=0.5)}
    objective = Constrained(tiny_classifier("plm_ca", dropout=0.0), {TASK: Constraint(0.4)}, terms)
    losses = objective.losses(planted_batch(**DATA))
    expected = 0.5 * losses["size"] + (losses["classification"] - 0.4)
    assert losses["loss"].item() == pytest.approx(expected.item())


def validated(objective: Constrained, folder: Path) -> dict[str, float]:
    """Returns the values that a validation logs."""
    trainer = quiet_trainer(folder)
    trainer.validate(objective, loader(1, **DATA), verbose=False)
    return {name: value.item() for name, value in trainer.callback_metrics.items()}


def test_total_in_validation_is_that_of_the_losses_that_are_minimized(tmp_path):
    def logged(constraint: str, **arguments: Any) -> dict[str, float]:
        terms: dict[str, Term] = {"size": LogitSize(weight=1.0, validate=True)}
        network = tiny_classifier("plm_ca", dropout=0.0)
        return validated(Constrained(network, {constraint: Constraint(0.4)}, terms, **arguments), tmp_path)

    swapped, alone, task = logged(TASK), logged("size", only="size"), logged(TASK, only=TASK)
    assert swapped["val/loss"] == swapped["val/size"] != alone["val/log_loss"]
    assert alone["val/loss"] == alone["val/size"]
    assert task["val/loss"] == pytest.approx(task["val/log_loss"])
    usual = logged("size", task_weight=0.5)
    assert usual["val/loss"] == pytest.approx(0.5 * usual["val/log_loss"])


def test_total_in_validation_is_not_logged_if_it_would_always_be_0(tmp_path):
    terms: dict[str, Term] = {"size": LogitSize(), "free": LogitSize()}
    objective = Constrained(tiny_classifier("plm_ca"), {"size": Constraint(0.4)}, terms, task_weight=0.0)
    assert objective.more_validation_names == ["size"]
    assert "val/loss" not in validated(objective, tmp_path)


@pytest.mark.parametrize(
    ("constraint", "only", "shown"),
    [
        ("size", None, "own loss 1, size at most 0.4, in validation below 0.44 (LogitSize)"),
        ("size", "size", "own loss 0, size alone (LogitSize)"),
        (TASK, None, "own loss at most 0.4, in validation below 0.44, size 1 (LogitSize)"),
        (TASK, TASK, "own loss alone, size 0 (LogitSize)"),
    ],
)
def test_line_at_the_start_says_what_is_minimized_and_what_is_bounded(constraint, only, shown, tmp_path, capsys):
    network = tiny_classifier("plm_ca", dropout=0.0)
    objective = Constrained(network, {constraint: Constraint(0.4)}, {"size": LogitSize()}, only=only)
    quiet_trainer(tmp_path, max_epochs=1, limit_train_batches=1, limit_val_batches=0).fit(objective, loader(1, **DATA))
    assert f"terms: {shown}" in capsys.readouterr().out


def test_alpha_follows_the_mean_violation_of_the_whole_optimizer_step(tmp_path):
    sizes = []

    class Recording(Constrained):
        def losses(self, batch):
            losses = super().losses(batch)
            sizes.append(losses["size"].item())
            return losses

    network = tiny_classifier("plm_ca", dropout=0.0)
    objective = Recording(
        network, {"size": Constraint(0.4)}, {"size": LogitSize()}, dual_optimizer=rmsprop, dual_decay="constant",
        accumulate_grad_batches=2, optimizer=lambda p: torch.optim.SGD(p, lr=0.0),
    )  # fmt: skip
    trainer = quiet_trainer(tmp_path, max_epochs=1, limit_val_batches=0)
    trainer.fit(objective, loader(5, **DATA))
    alpha = torch.ones(1)
    expected = rmsprop([alpha])
    for group in (sizes[0:2], sizes[2:4], sizes[4:5]):
        alpha.grad = -torch.tensor([sum(group) / len(group) - 0.4])
        expected.step()
    assert objective.dual.alpha.item() == pytest.approx(alpha.item(), rel=1e-5)
    assert trainer.global_step == 3  # of the network's optimizer; the dual one does not count


def test_accumulation_and_clipping_give_the_step_of_one_batch(tmp_path):
    weights = []
    for accumulated in (1, 2):
        network = tiny_classifier("plm_ca", dropout=0.0).double()
        objective = Constrained(
            network, {"size": Constraint(0.1)}, {"size": LogitSize()}, accumulate_grad_batches=accumulated,
            gradient_clip_val=0.01, optimizer=lambda p: torch.optim.SGD(p, lr=1.0), warmup_fraction=0.0,
        )  # fmt: skip
        whole = planted_batch(0, **DATA)
        batches = [whole] if accumulated == 1 else [whole[:3], whole[3:]]
        before = [value.clone() for value in network.parameters()]
        data = DataLoader(BatchDataset(batches), batch_size=None)
        quiet_trainer(tmp_path, max_epochs=1, limit_val_batches=0).fit(objective, data)
        moved = torch.cat([(a - b).flatten() for a, b in zip(network.parameters(), before, strict=True)])
        assert moved.norm().item() == pytest.approx(0.01, rel=1e-4)
        weights.append(moved)
    assert torch.allclose(weights[0], weights[1], atol=1e-12)


@pytest.mark.slow
def test_scalars_of_training_are_those_of_every_logged_step_before_clipping(tmp_path):
    def logged(number_of_batches: int, **arguments: Any) -> dict[str, list[float]]:
        objective = constrained(optimizer=lambda p: torch.optim.SGD(p, lr=1e-9), dual_optimizer=still, **arguments)
        logger = TensorBoardLogger(tmp_path, name=str(len(list(tmp_path.iterdir()))), version="run")
        options: dict[str, Any] = {"max_epochs": 1, "limit_val_batches": 0, "log_every_n_steps": 4}
        trainer = quiet_trainer(tmp_path, logger=logger, callbacks=[TrainingScalars()], **options)
        trainer.fit(objective, loader(number_of_batches, **DATA))
        events = EventAccumulator(logger.log_dir).Reload()
        return {tag: [event.value for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}

    free, clipped = logged(8), logged(8, gradient_clip_val=1e-3)
    assert len(free["train/gradient_norm"]) == 2 and free["train/gradient_norm"][0] > 0.01
    assert clipped["train/gradient_norm"] == pytest.approx(free["train/gradient_norm"], rel=1e-4)
    # the losses of batches 4, 8 and 12 are logged; the steps at or after them are those of batches 6, 9 and 12
    assert len(logged(12, accumulate_grad_batches=3)["train/gradient_norm"]) == 3
    assert {"train/alpha_size", "train/violation_size"} <= set(free)


def test_multiplier_is_in_no_optimizer_of_the_network_and_warms_up_with_it(tmp_path):
    alphas, violations = [1.0], []

    class Recording(Constrained):
        def on_train_batch_end(self, *_: Any) -> None:
            alphas.append(self.dual.alpha.item())
            violations.append(self.dual.average.item())

    objective = Recording(
        tiny_classifier("plm_ca", dropout=0.0), {"size": Constraint(0.5)}, {"size": LogitSize()},
        dual_optimizer=lambda p: torch.optim.SGD(p, lr=1.0), warmup_fraction=1.0, optimizer=fast_optimizer,
    )  # fmt: skip
    trainer = quiet_trainer(tmp_path, max_epochs=1, limit_val_batches=0)
    trainer.fit(objective, loader(3, **DATA))
    trained = {id(p) for group in trainer.optimizers[0].param_groups for p in group["params"]}
    assert id(objective.dual.alpha) not in trained
    changes = [after - before for before, after in pairwise(alphas)]
    warm_up = (0, 1 / 3, 2 / 3)
    assert changes == pytest.approx([rate * v for rate, v in zip(warm_up, violations, strict=True)], abs=1e-6)


def saved(folder: Path, **arguments: Any) -> BestCheckpoint:
    return BestCheckpoint(folder, filename="best", monitor="val/log_loss", auto_insert_metric_name=False, **arguments)


@pytest.mark.slow
def test_only_epochs_that_meet_the_bound_become_the_best_checkpoint(tmp_path):
    never = saved(tmp_path / "never")
    objective = constrained(1e-9, dual_optimizer=lambda p: torch.optim.SGD(p, lr=0.0))
    trainer = quiet_trainer(tmp_path, max_epochs=2, enable_checkpointing=True, callbacks=[never])
    trainer.fit(objective, loader(2, **DATA), loader(1, **DATA))
    assert not never.best_model_path and not (tmp_path / "never" / "best.ckpt").exists()
    assert not objective.bound_met
    always = saved(tmp_path / "always")
    objective = constrained(100.0)
    trainer = quiet_trainer(tmp_path, max_epochs=2, enable_checkpointing=True, callbacks=[always])
    trainer.fit(objective, loader(2, **DATA), loader(1, **DATA))
    assert (tmp_path / "always" / "best.ckpt").exists() and objective.bound_met


def test_of_equal_scores_the_latest_epoch_is_the_best(tmp_path):
    best = saved(tmp_path)
    objective = constrained(100.0, optimizer=lambda p: torch.optim.SGD(p, lr=0.0))
    trainer = quiet_trainer(tmp_path, max_epochs=3, enable_checkpointing=True, callbacks=[best])
    trainer.fit(objective, loader(1, **DATA), loader(1, **DATA))
    assert torch.load(tmp_path / "best.ckpt", weights_only=True)["epoch"] == 2


@pytest.mark.slow
def test_fit_resumed_at_an_epochs_end_gives_the_same_weights_and_multipliers(tmp_path):
    def fit(folder: Path, **arguments: Any) -> dict[str, torch.Tensor]:
        seed_everything(5, verbose=False)
        objective = constrained(0.2, dropout=0.1, averaging=0.5)
        saving = ModelCheckpoint(folder, "{epoch}", save_top_k=-1)
        trainer = quiet_trainer(folder, max_epochs=3, enable_checkpointing=True, callbacks=[saving])
        trainer.fit(objective, loader(3, **DATA), loader(1, **DATA), weights_only=True, **arguments)
        return objective.state_dict()

    whole = fit(tmp_path / "whole")
    resumed = fit(tmp_path / "resumed", ckpt_path=tmp_path / "whole" / "epoch=0.ckpt")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert "dual.alpha" in whole


@pytest.mark.slow
def test_constrained_attention_ends_below_its_bound_and_joint_training_without_weight_does_not(tmp_path):
    def divergence(objective: Constrained) -> float:
        trainer = quiet_trainer(tmp_path, max_epochs=4)
        trainer.fit(objective, loader(4, **DATA), loader(2, **DATA))
        return trainer.callback_metrics["val/attention"].item()

    def objective(rate: float) -> Constrained:
        return Constrained(
            tiny_classifier("plm_ca", dropout=0.0), {"attention": Constraint(0.2)},
            {"attention": SupervisedAttention(reduction="per_code")}, optimizer=fast_optimizer,
            dual_optimizer=lambda p: torch.optim.SGD(p, lr=rate),
        )  # fmt: skip

    free = objective(0.0)
    free.dual.alpha.zero_()
    assert divergence(objective(1.0)) < 0.3 < divergence(free)


@pytest.mark.slow
def test_two_processes_end_with_the_weights_and_multipliers_of_one(tmp_path):
    script = Path(__file__).with_name("constrained_fit.py")
    for number in (1, 2):
        subprocess.run([sys.executable, str(script), str(tmp_path), str(number)], check=True, timeout=300)
    one, two = (torch.load(tmp_path / f"{number}.pt", weights_only=True) for number in (1, 2))
    minima = [part.pop("minima") for part in (one, two)]
    assert one["dual.alpha"].ne(1).all() and one["bound_met"]
    assert all(torch.allclose(one[name], two[name], rtol=1e-6, atol=1e-9) for name in one)
    assert minima[0] == pytest.approx(minima[1], rel=1e-6)


@pytest.mark.slow
def test_the_smallest_loss_of_every_fiftieth_batch_is_kept_for_bounds_of_the_preset_code(tmp_path):
    seen = []

    class Recording(Constrained):
        def losses(self, batch):
            losses = super().losses(batch)
            seen.append(losses["loss"].item())
            return losses

    arguments: dict[str, Any] = {"only": "size", "optimizer": fast_optimizer}
    objective = Recording(tiny_classifier("bert"), {"size": Constraint("auto")}, {"size": LogitSize()}, **arguments)
    trainer = quiet_trainer(tmp_path, max_epochs=1, limit_val_batches=0)
    trainer.fit(objective, loader(101))
    assert objective.minima["batch/size"] == pytest.approx(min(seen[49], seen[99]))


def test_validation_alone_needs_no_known_bound_and_meets_none(tmp_path):
    for bound in ("auto", 100.0):
        objective = Constrained(tiny_classifier("plm_ca"), {"size": Constraint(bound)}, {"size": LogitSize()})
        trainer = quiet_trainer(tmp_path)
        trainer.validate(objective, loader(1, **DATA), verbose=False)
        assert trainer.callback_metrics["val/size"] > 0 and not objective.bound_met
