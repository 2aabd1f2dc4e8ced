"""Progress of fits and evaluations: plain lines in a file, a bar on a terminal."""

import io
import re
import sys

import pytest
import torch
from lightning import Trainer

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.random import Random
from lightning_xai.callbacks.forecast.forecast import Forecast
from lightning_xai.callbacks.progress import PlainProgress, TerminalProgress, progress_bar
from tests.callbacks.conftest import compute, evaluation, planted_data, trainer


def plain() -> PlainProgress:
    """Returns a bar for which a line is always due."""
    return PlainProgress(first=0.0, every=0.0)


def fit(objective, folder, *callbacks, **arguments) -> Trainer:
    fitted = trainer(
        folder,
        *callbacks,
        **({"max_epochs": 2, "enable_progress_bar": True, "enable_checkpointing": False} | arguments),
    )
    fitted.fit(objective, datamodule=planted_data(batch_size=4))
    return fitted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_fit_prints_steps_epochs_and_validation_numbers(objective, tmp_path, capsys):
    fit(objective, tmp_path, plain())
    lines = [line for line in capsys.readouterr().out.splitlines() if re.match("step|epoch", line)]
    assert [line.split(":")[0] for line in lines] == [
        "step 1 of 4 (epoch 1 of 2)",
        "epoch 1 of 2 (step 2 of 4)",
        "step 3 of 4 (epoch 2 of 2)",
        "epoch 2 of 2 (step 4 of 4)",
    ]
    assert re.search(r": loss [\d.]+, [\d,]+ tokens/s, under 1 min left$", lines[0])
    assert re.search(r": loss [\d.]+, val .*accuracy [\d.]+.*, [\d,]+ tokens/s, under 1 min left$", lines[1])
    assert not lines[3].endswith("left")


def test_short_fit_prints_only_its_epochs(objective, tmp_path, capsys):
    fit(objective, tmp_path, PlainProgress())
    lines = [line for line in capsys.readouterr().out.splitlines() if re.match("step|epoch", line)]
    assert [line[:12] for line in lines] == ["epoch 1 of 2", "epoch 2 of 2"]


def test_validation_within_an_epoch_has_its_own_line(objective, tmp_path, capsys):
    fit(objective, tmp_path, PlainProgress(), max_epochs=1, val_check_interval=1)
    assert capsys.readouterr().out.count("validation: epoch 1 of 1 (step 1 of 2): loss") == 1


def test_resumed_fit_does_not_count_the_steps_of_the_killed_process(objective, tmp_path, capsys):
    first = fit(objective, tmp_path, PlainProgress(), max_epochs=1, accumulate_grad_batches=2)
    first.save_checkpoint(tmp_path / "last.ckpt")
    bar = PlainProgress()
    second = trainer(tmp_path, bar, max_epochs=3, enable_progress_bar=True, accumulate_grad_batches=2)
    second.fit(objective, datamodule=planted_data(batch_size=4), ckpt_path=str(tmp_path / "last.ckpt"))
    assert "epoch 2 of 3 (step 2 of 3)" in capsys.readouterr().out
    assert bar.training._first_step == 1


def test_test_says_which_method_explains_and_which_metric_measures(objective, tmp_path, capsys):
    run = trainer(tmp_path, compute(Random(), Gradient()), evaluation(), plain(), enable_progress_bar=True)
    run.test(objective, datamodule=planted_data(eval_batch_size=4), verbose=False)
    lines = capsys.readouterr().out.splitlines()
    assert "validation: Random (method 1 of 2) explains examples 1-4 of 6" in lines  # nothing is measured yet
    assert "test: Gradient (method 2 of 2) explains examples 5-7 of 7, under 1 min left" in lines
    assert "test: preset/entropy measures Gradient on examples 1-4 of 7, under 1 min left" in lines
    assert not any("entropy" in line for line in lines if line.startswith("validation:"))  # it needs no tuning
    assert "test: batch 2 of 2, under 1 min left" in lines


def test_only_the_first_process_prints(objective, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    run = trainer(tmp_path, compute(Random()), evaluation(), plain(), enable_progress_bar=True)
    run.test(objective, datamodule=planted_data(), verbose=False)
    assert "examples" not in capsys.readouterr().out


def test_terminal_has_a_bar_with_loss_and_validation_but_no_version(objective, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    bar = progress_bar()
    assert isinstance(bar, TerminalProgress)
    fit(objective, tmp_path, bar, logger=True)
    shown = terminal.getvalue()
    assert "epoch 2 of 2: 100%" in shown and "loss=" in shown and "val_macro_f1=" in shown
    assert "v_num" not in shown
    assert "epoch 1 of 2 (step 2 of 4): loss" in shown


def test_terminal_shows_the_method(objective, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    run = trainer(tmp_path, compute(Random()), evaluation(), TerminalProgress(), enable_progress_bar=True)
    run.test(objective, datamodule=planted_data(), verbose=False)
    assert "Random (method 1 of 1) explains examples 1-" in terminal.getvalue()


@pytest.mark.parametrize("stage", ["fit", "test", "validate"])
def test_forecast_names_splits_and_changes_no_number(objective, tmp_path, capsys, stage):
    def run(*callbacks) -> tuple[Trainer, torch.Tensor]:
        torch.manual_seed(0)
        ran = trainer(
            tmp_path, compute(Random(), Gradient(), max_examples=5), evaluation(), *callbacks, max_epochs=1,
            enable_checkpointing=False,
        )  # fmt: skip
        arguments = {} if stage == "fit" else {"verbose": False}
        getattr(ran, stage)(objective, datamodule=planted_data(), **arguments)
        return ran, torch.rand(3)

    before = {name: value.clone() for name, value in objective.state_dict().items()}
    plain_run, plain_random = run()
    objective.load_state_dict(before)
    capsys.readouterr()
    forecast_run, random = run(Forecast(tests_after_fit=True))
    examples = "5 validation examples" if stage == "validate" else "5 validation and 5 test examples"
    prefix = "the test: " if stage == "fit" else ""
    assert f"{prefix}2 methods explain {examples}, under 1 min\n" in capsys.readouterr().out
    assert torch.equal(plain_random, random)
    assert plain_run.callback_metrics.keys() == forecast_run.callback_metrics.keys()
    for name, value in plain_run.callback_metrics.items():
        torch.testing.assert_close(forecast_run.callback_metrics[name], value, rtol=0, atol=0, equal_nan=True)
