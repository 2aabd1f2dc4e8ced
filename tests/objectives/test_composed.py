"""Objectives that are sums: shares, weights, schedules, validation, and the refusals."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.metrics.classification import MULTILABEL_NAMES, SINGLE_LABEL_NAMES, ClassificationMetrics
from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.base import Term, TermValue
from lightning_xai.objectives.terms.input_gradient import InputGradient
from lightning_xai.objectives.terms.pgd import PGD
from lightning_xai.objectives.terms.supervised_attention import SupervisedAttention
from lightning_xai.objectives.token_masking import TokenMasking
from tests.conftest import tiny_classifier
from tests.objectives.conftest import fast_optimizer, loader, planted_batch, quiet_trainer

DATA: dict[str, Any] = {"num_classes": 5, "multilabel": True}


class LogitSize(Term):
    measured = True

    def value(self, clean, prepared):
        return TermValue(clean.output.logits.square().mean(dim=1), {"largest": clean.output.logits.abs().max()})


def counting_passes(network) -> list[int]:
    passes: list[int] = []
    network.register_forward_hook(lambda *_: passes.append(1))
    return passes


def test_loss_is_the_weighted_sum_and_all_terms_share_one_clean_pass(tiny_plm_ca):
    passes = counting_passes(tiny_plm_ca)
    terms: dict[str, Term] = {
        "igr": InputGradient(weight=0.25), "size": LogitSize(weight=2.0), "attention": SupervisedAttention(weight=0.5),
    }  # fmt: skip
    losses = Supervised(tiny_plm_ca, terms=terms, task_weight=0.75).losses(planted_batch(**DATA))
    expected = 0.75 * losses["classification"] + 0.25 * losses["igr"] + 2 * losses["size"] + 0.5 * losses["attention"]
    assert losses["loss"].item() == pytest.approx(expected.item())
    assert losses["size_largest"] > 0
    assert len(passes) == 1


def test_a_term_of_weight_0_takes_no_pass_in_training_and_is_still_validated(tiny_plm_ca, tmp_path):
    term = PGD(weight=0.0, epsilon=0.1, search=Search(2), validate=True)
    objective = Supervised(tiny_plm_ca, terms={"pgd": term})
    passes = counting_passes(tiny_plm_ca)
    assert set(objective.losses(planted_batch(**DATA))) == {"loss", "classification"}
    assert len(passes) == 1
    trainer = quiet_trainer(tmp_path)
    trainer.validate(objective, loader(2, **DATA), verbose=False)
    logged = trainer.callback_metrics
    assert logged["val/pgd"] > logged["val/loss"] > 0  # the total leaves out a term of weight 0


def test_validation_logs_the_mean_over_the_split_and_the_weighted_total(tmp_path):
    network = tiny_classifier("plm_ca", dropout=0.1)
    objective = Supervised(network, terms={"size": LogitSize(weight=[(0.0, 0.0), (1.0, 3.0)])}, task_weight=0.5)
    batches = [planted_batch(seed, **DATA) for seed in range(2)]
    trainer = quiet_trainer(tmp_path)
    trainer.validate(objective, loader(2, **DATA), verbose=False)
    network.eval()
    size = torch.cat([network(batch.inputs).logits.square().mean(dim=1) for batch in batches]).mean().item()
    logged = trainer.callback_metrics
    assert logged["val/size"].item() == pytest.approx(size, rel=1e-5)
    assert logged["val/loss"].item() == pytest.approx(0.5 * logged["val/log_loss"].item() + 3 * size, rel=1e-5)


def test_schedule_of_a_weight_follows_the_steps(tmp_path):
    seen = []

    class Recording(Supervised):
        def losses(self, batch):
            seen.append(self.weights_now().get("size", 0.0))
            return super().losses(batch)

    objective = Recording(tiny_classifier("bert"), terms={"size": LogitSize(weight=[(0.25, 0.0), (0.75, 1.0)])})
    quiet_trainer(tmp_path, max_epochs=1).fit(objective, loader(8))
    assert seen == [0, 0, 0, 0.25, 0.5, 0.75, 1, 1]


def test_without_the_own_loss_every_weight_that_the_logits_need_has_a_gradient():
    network = tiny_classifier("plm_ca", dropout=0.0)
    batch = planted_batch(**DATA)
    Supervised(network).losses(batch)["loss"].backward()
    reached = {name for name, value in network.named_parameters() if value.grad is not None}
    network.zero_grad()
    Supervised(network, terms={"attention": SupervisedAttention()}, task_weight=0.0).losses(batch)["loss"].backward()
    assert {name for name, value in network.named_parameters() if value.grad is not None} == reached


def test_terms_of_token_masking_read_the_students_pass_over_the_full_input(teacher_path):
    objective = TokenMasking(
        tiny_classifier("plm_ca"), teacher_path, terms={"igr": InputGradient(weight=1.0)}, search=Search(2)
    )
    objective.setup("fit")
    batch = planted_batch(**DATA)
    with torch.no_grad():
        for parameter in objective.network.head_parameters():
            parameter.mul_(1.5)  # at its teacher, the distance to the teacher would have no gradient
    losses = objective.eval().losses(batch)
    network = objective.network
    embeds = network.embed(batch.inputs).detach().requires_grad_()
    distances = objective.task(batch).losses(network(batch.inputs, embeds).logits)
    (gradient,) = torch.autograd.grad(distances.sum(), embeds)
    assert losses["igr"].item() == pytest.approx(gradient.flatten(1).norm(dim=1).mean().item(), rel=1e-4)
    assert losses["loss"].item() == pytest.approx(
        (losses["distillation"] + 0.5 * losses["masking"] + losses["igr"]).item(), rel=1e-5
    )


def test_validation_alone_measures_terms_of_token_masking_on_the_distance_to_the_teacher(teacher_path, tmp_path):
    network = tiny_classifier("plm_ca", seed=2)
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    objective = TokenMasking(network, teacher_path, terms={"igr": InputGradient(weight=0.5, validate=True)})
    trainer = quiet_trainer(tmp_path)
    trainer.validate(objective, loader(1, **DATA), verbose=False)
    own = objective.eval().task(planted_batch(**DATA)).losses(network(planted_batch(**DATA).inputs).logits).mean()
    expected = own.item() + 0.5 * trainer.callback_metrics["val/igr"].item()
    assert trainer.callback_metrics["val/loss"].item() == pytest.approx(expected, rel=1e-5)
    assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())


@pytest.mark.slow
def test_steps_with_terms_accumulate_to_the_step_of_one_batch(tmp_path):
    weights = []
    for batch_size, accumulated in ((8, 1), (4, 2)):
        network = tiny_classifier("plm_ca", num_classes=3, dropout=0.0).double()
        terms: dict[str, Term] = {
            "attention": SupervisedAttention(reduction="per_code"), "igr": InputGradient(weight=1.0),
        }  # fmt: skip
        objective = Supervised(
            network, terms=terms, optimizer=lambda p: torch.optim.SGD(p, lr=0.1), warmup_fraction=0.0
        )
        data = TextDataModule(
            Planted(num_classes=3, multilabel=True, num_train=8, words_per_document=(10, 10)),
            VocabularyEncoder(words=95, max_length=16),
            batch_size=batch_size,
        )
        trainer = quiet_trainer(tmp_path, max_epochs=1, accumulate_grad_batches=accumulated, limit_val_batches=0)
        trainer.fit(objective, datamodule=data)
        weights.append({name: value.clone() for name, value in network.named_parameters()})
    assert all(torch.allclose(weights[0][name], weights[1][name], rtol=1e-8, atol=1e-10) for name in weights[0])


@pytest.mark.parametrize("name", ["loss", "task", "keys", "a.b", "a/b", "", "log_loss", "map", "values", "2nd"])
def test_name_of_a_term_that_is_taken_or_cannot_be_logged_is_refused(name, tiny_hf):
    with pytest.raises(ValueError, match=f"a term is named '{name}'"):
        Supervised(tiny_hf, terms={name: LogitSize()})


def test_names_of_validation_metrics_are_all_reserved():
    for multilabel, names in ((False, SINGLE_LABEL_NAMES), (True, MULTILABEL_NAMES)):
        metric = ClassificationMetrics(3, multilabel)
        labels = torch.ones(1, 3) if multilabel else torch.tensor([0])
        metric.update(torch.full((1, 3), 0.4), labels, torch.tensor([0]))
        assert set(metric.compute()) - {"num_examples"} == names


def test_nothing_to_minimize_is_refused(tiny_hf):
    with pytest.raises(ValueError, match="task_weight is 0 and no term has a weight above 0"):
        Supervised(tiny_hf, terms={"size": LogitSize(weight=0.0)}, task_weight=0.0)


def test_a_term_whose_gradient_vanishes_is_refused_by_the_preflight(tiny_hf):
    class Nothing(LogitSize):
        def value(self, clean, prepared):
            return TermValue(super().value(clean, prepared).values * 0)

    with pytest.raises(ValueError, match="term Nothing: its gradient is 0"):
        Supervised(tiny_hf, terms={"nothing": Nothing()}).try_terms(planted_batch())


def test_a_term_whose_gradient_is_not_finite_is_refused_by_the_preflight(tiny_hf):
    class Root(LogitSize):
        def value(self, clean, prepared):
            return TermValue((0 * super().value(clean, prepared).values).sqrt())  # its derivative at 0 is infinite

    with pytest.raises(ValueError, match="term Root: its gradient is not finite"):
        Supervised(tiny_hf, terms={"root": Root()}).try_terms(planted_batch())


def test_the_preflight_tries_more_examples_before_it_refuses_a_term_that_is_flat_on_one(tmp_path):
    flat: list[int] = []

    class FlatOnSome(LogitSize):
        def value(self, clean, prepared):
            values = super().value(clean, prepared).values
            return TermValue(torch.where(torch.isin(clean.task.batch.index, torch.tensor(flat)), 0 * values, values))

    source = Planted(num_classes=2, num_train=8, num_validation=2, num_test=2)
    data = TextDataModule(source, VocabularyEncoder(words=95), batch_size=4)
    objective = Supervised(tiny_classifier("bert", num_classes=2), terms={"size": FlatOnSome()})
    trainer = quiet_trainer(tmp_path, max_epochs=1, limit_train_batches=0)
    trainer.fit(objective, datamodule=data)
    batch = data.collate(data.split("train")[[0, 1]])
    flat[:] = [0]
    objective.try_terms(batch)
    flat[:] = range(8)
    with pytest.raises(ValueError, match="term FlatOnSome: its gradient is 0"):
        objective.try_terms(batch)


def test_the_preflight_tries_a_term_on_an_example_that_counts_for_it(tiny_plm_ca):
    batch = planted_batch(**DATA)
    assert batch.rationale is not None
    batch.rationale.scores[:-1] = 0
    objective = Supervised(tiny_plm_ca, terms={"attention": SupervisedAttention()})
    objective.try_terms(batch)
    objective.try_terms(replace(batch, rationale=replace(batch.rationale, scores=batch.rationale.scores * 0)))


@pytest.mark.slow
def test_validation_does_not_change_the_weights_of_the_next_step(tmp_path):
    def trained(validates: bool) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        network = tiny_classifier("plm_ca", dropout=0.1)
        objective = Supervised(network, terms={"size": LogitSize(validate=validates)}, optimizer=fast_optimizer)
        quiet_trainer(tmp_path, max_epochs=2).fit(objective, loader(2, **DATA), loader(1, **DATA))
        return network.state_dict()

    first, second = trained(True), trained(False)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("options", [{"num_sanity_val_steps": 1}, {"val_check_interval": 1}])
def test_minima_are_those_of_whole_epochs_and_of_no_sanity_check(options, tmp_path):
    def minima(**options: Any) -> dict[str, float]:
        network = tiny_classifier("plm_ca", dropout=0.0)
        # the size grows with training, so the sanity check has the smallest one
        objective = Supervised(network, terms={"size": LogitSize(weight=0.0)}, optimizer=fast_optimizer)
        quiet_trainer(tmp_path, max_epochs=1, **options).fit(objective, loader(3, **DATA), loader(1, **DATA))
        return objective.minima

    first, second = minima(), minima(**options)
    assert second["train/task"] == pytest.approx(first["train/task"], abs=1e-7)
    if "num_sanity_val_steps" in options:
        assert second["val/size"] == pytest.approx(first["val/size"], abs=1e-7)
