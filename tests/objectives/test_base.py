"""The part that every objective inherits: checks, seeds, evaluation, and the optimizer with its schedule."""

import os

import pytest
import torch
from lightning import seed_everything

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.objectives.supervised import Supervised
from tests.conftest import TINY_CONFIGS, tiny_classifier
from tests.objectives.conftest import fast_optimizer, loader, quiet_trainer


def test_network_that_arrives_in_eval_mode_is_trained_with_dropout(tiny_hf, tmp_path):
    modes = []

    class Recording(Supervised):
        def losses(self, batch):
            modes.append(all(module.training for module in self.network.modules()))
            return super().losses(batch)

    quiet_trainer(tmp_path, max_epochs=1).fit(Recording(tiny_hf.eval()), loader(1))
    assert modes == [True]


def test_validation_logs_metrics_and_tunes_the_threshold_of_many_labels(tmp_path):
    objective = Supervised(tiny_classifier("plm_ca"))
    trainer = quiet_trainer(tmp_path)
    trainer.validate(objective, loader(2, num_classes=5, multilabel=True), verbose=False)
    assert {"val/micro_f1", "val/map"} <= set(trainer.callback_metrics)
    assert objective.decision_threshold != 0.5


def test_test_logs_metrics_without_a_datamodule(tmp_path):
    trainer = quiet_trainer(tmp_path)
    trainer.test(Supervised(tiny_classifier("bert")), loader(2), verbose=False)
    assert any("accuracy" in name for name in trainer.callback_metrics)


def test_loss_that_is_not_finite_names_the_examples(tiny_hf, tmp_path):
    with torch.no_grad():
        tiny_hf.embedding_matrix.fill_(float("nan"))
    with pytest.raises(ValueError, match=r"the loss of the examples with indices \[0, 1, 2, 3, 4, 5\] is nan"):
        quiet_trainer(tmp_path, max_epochs=1).fit(Supervised(tiny_hf), loader(1))


def test_steps_are_seeded_from_seed_everything(tmp_path, monkeypatch):
    monkeypatch.setenv("PL_GLOBAL_SEED", "0")
    seeds = []

    class Recording(Supervised):
        def losses(self, batch):
            seeds.append(torch.initial_seed())
            return super().losses(batch)

    for _ in range(2):
        seed_everything(3, verbose=False)
        quiet_trainer(tmp_path, max_epochs=1).fit(Recording(tiny_classifier("bert")), loader(2))
    seed_everything(4, verbose=False)
    quiet_trainer(tmp_path, max_epochs=1).fit(Recording(tiny_classifier("bert")), loader(2))
    first, second, third = seeds[:2], seeds[2:4], seeds[4:]
    assert first == second and first[0] != first[1] and first != third
    assert os.environ["PL_GLOBAL_SEED"] == "4"


def test_endless_training_has_no_schedule(tiny_hf, tmp_path):
    with pytest.raises(ValueError, match="set trainer.max_epochs or trainer.max_steps"):
        quiet_trainer(tmp_path, max_epochs=-1).fit(Supervised(tiny_hf), loader(1))


def test_warmup_fraction_outside_0_to_1_is_refused(tiny_hf):
    with pytest.raises(ValueError, match="warmup_fraction is 5"):
        Supervised(tiny_hf, warmup_fraction=5)


def test_head_learns_at_its_own_rate(tiny_hf, tmp_path):
    objective = Supervised(
        tiny_hf, optimizer=fast_optimizer, warmup_fraction=0.0, decay="constant", head_lr_factor=10.0
    )
    trainer = quiet_trainer(tmp_path, max_epochs=1)
    trainer.fit(objective, loader(1))
    body, head = trainer.optimizers[0].param_groups
    assert head["lr"] == pytest.approx(10 * body["lr"])
    assert {id(p) for p in head["params"]} == {id(p) for p in tiny_hf.head_parameters()}
    assert len(head["params"]) + len(body["params"]) == len(list(tiny_hf.parameters()))


@pytest.mark.parametrize("precision", ["64-true", "bf16-true"])
def test_weights_that_are_not_float32_are_refused_before_training(precision, tiny_hf, tmp_path):
    with pytest.raises(ValueError, match=f"trainer.precision is {precision}.*bf16-mixed"):
        quiet_trainer(tmp_path, precision=precision).fit(Supervised(tiny_hf), loader(1))


def test_text_longer_than_the_networks_positions_is_refused_before_training(tmp_path):
    source = Planted(num_classes=3, num_train=8, num_validation=2, num_test=2, words_per_document=(30, 40))
    network = HFClassifier(config={**TINY_CONFIGS["bert"], "max_position_embeddings": 20}, num_classes=3)
    with pytest.raises(ValueError, match="an example of split train has .* tokens, but bert has 20 positions"):
        quiet_trainer(tmp_path).fit(Supervised(network), datamodule=TextDataModule(source, VocabularyEncoder(words=95)))
