"""A fit says at its start how long its training will take."""

import pytest
from lightning import Trainer
from lightning.pytorch.callbacks import EarlyStopping

from lightning_xai.callbacks.base import data_of
from lightning_xai.callbacks.forecast import forecast
from lightning_xai.callbacks.forecast.forecast import Forecast
from lightning_xai.callbacks.forecast.training_work import step_passes, training_work
from lightning_xai.metrics.faithfulness import Comprehensiveness
from lightning_xai.metrics.top_units import Counts
from lightning_xai.models.scorer.scorer_settings import Scorer
from lightning_xai.objectives.aml import AML
from lightning_xai.objectives.constrained import Constrained
from lightning_xai.objectives.dual_ascent import Constraint
from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.input_gradient import InputGradient
from lightning_xai.objectives.terms.rationale_contrast import RationaleContrast
from lightning_xai.objectives.terms.vat import VAT
from lightning_xai.objectives.token_masking import TokenMasking
from tests.callbacks.conftest import planted_data
from tests.conftest import tiny_classifier


def trainer_of(folder, data, **options) -> Trainer:
    trainer = Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False,
        enable_model_summary=False, default_root_dir=folder, **options,
    )  # fmt: skip
    setattr(trainer, "datamodule", data)  # noqa: B010 - Lightning does not declare the attribute
    return trainer


@pytest.mark.parametrize(
    ("options", "epochs"),
    [
        ({"max_epochs": 3}, 3),
        ({"max_epochs": 2, "limit_train_batches": 0.5}, 1),
        ({"max_epochs": 2, "limit_train_batches": 2}, 1),
        ({"max_epochs": 9, "max_steps": 6, "accumulate_grad_batches": 2}, 3),
        ({"max_epochs": -1, "max_steps": 4}, 1),
    ],
)
def test_examples_are_those_of_all_epochs_and_of_no_more_steps(options, epochs, tmp_path):
    data = planted_data(batch_size=2)  # 8 training examples in 4 batches
    work = training_work(trainer_of(tmp_path, data, **options), Supervised(tiny_classifier("bert")))
    assert work is not None and work.num_examples == 8 * epochs
    assert work.mean_tokens == pytest.approx(data.split("train").lengths.mean())


def test_a_training_without_steps_or_without_an_end_has_no_work(tmp_path):
    objective, data = Supervised(tiny_classifier("bert")), planted_data()
    for options in (
        {"max_epochs": 2, "limit_train_batches": 0},
        {"max_epochs": -1},
        {"max_steps": 4, "limit_train_batches": 0},
    ):
        assert training_work(trainer_of(tmp_path, data, **options), objective) is None


def test_terms_that_are_trained_add_their_passes():
    network = tiny_classifier("bert")
    terms = {"vat": VAT(num_steps=1), "igr": InputGradient(), "pairs": RationaleContrast(weight=0.0)}
    assert step_passes(Supervised(network, terms=terms), 9) == 3 + 5 + 3


@pytest.mark.parametrize(("only", "passes"), [("task", 3), ("igr", 3 + 3), (None, 3 + 3 + 5)])
def test_a_run_that_finds_a_bound_trains_one_loss_alone(only, passes):
    terms = {"vat": VAT(num_steps=1), "igr": InputGradient()}
    constraints = {"task": Constraint("auto"), "igr": Constraint("auto")}
    objective = Constrained(tiny_classifier("bert"), constraints, terms, only=only)
    assert step_passes(objective, 9) == passes


def test_steps_of_a_constrained_objective_read_its_own_number_of_batches(tmp_path):
    objective = Constrained(
        tiny_classifier("bert"), {"task": Constraint(0.5)}, {"igr": InputGradient()}, accumulate_grad_batches=2
    )
    work = training_work(trainer_of(tmp_path, planted_data(batch_size=2), max_epochs=9, max_steps=6), objective)
    assert work is not None and work.num_examples == 24


def test_objectives_with_inner_work_declare_their_passes(tmp_path):
    network = tiny_classifier("bert")
    assert step_passes(TokenMasking(network, str(tmp_path), search=Search(5)), 9) == 1 + 1 + 2 * 5 + 2 * 3
    selects = Comprehensiveness(Counts([1]))
    assert step_passes(AML(network, str(tmp_path), selects, scorer=Scorer(start="explained")), 9) == 1 + 3 + 2 * 2


@pytest.mark.parametrize("stops", [False, True])
def test_a_long_training_is_announced_and_a_short_one_is_not(stops, tmp_path, capsys, monkeypatch):
    objective, callbacks = Supervised(tiny_classifier("bert")), [EarlyStopping("val/accuracy")] if stops else []
    trainer = trainer_of(tmp_path, planted_data(), max_epochs=20, callbacks=callbacks)
    monkeypatch.setattr(forecast, "seconds_per_token", lambda *_: 0.01)
    Forecast().on_fit_start(trainer, objective)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(forecast, "seconds_per_token", lambda *_: 0.1)
    Forecast().on_fit_start(trainer, objective)
    at_most = "at most " if stops else ""
    assert (
        capsys.readouterr().out
        == f"the training: {at_most}160 examples, about {expected(trainer)} min without validations\n"
    )
    trainer.ckpt_path = "last.ckpt"
    Forecast().on_fit_start(trainer, objective)
    assert capsys.readouterr().out == ""


def expected(trainer: Trainer) -> int:
    lengths = data_of(trainer).split("train").lengths
    return round(20 * lengths.sum() * 3 * 0.1 / 60)
