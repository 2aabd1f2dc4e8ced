"""Settings, networks and data with which guidance is refused before training."""

from dataclasses import replace
from typing import get_args

import pytest
from lightning import Trainer
from lightning.pytorch.callbacks import EarlyStopping

from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.occlusion import Occlusion
from lightning_xai.attributions.rollout import AttentionRollout
from lightning_xai.attributions.transformed import Transformed
from lightning_xai.data.module import TextDataModule
from lightning_xai.objectives.constrained import Constrained
from lightning_xai.objectives.dual_ascent import Constraint
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.base import Term
from lightning_xai.objectives.terms.explanation_guidance import ExplanationGuidance
from lightning_xai.objectives.terms.guidance_scores import GuidanceLoss
from lightning_xai.objectives.terms.guidance_settings import default_settings
from tests.conftest import tiny_classifier
from tests.objectives.conftest import quiet_trainer
from tests.objectives.terms.test_explanation_guidance import guided, planted_data


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (Occlusion(), {}, "the scores of Occlusion are not differentiable"),
        (Transformed(Occlusion(), ["absolute"]), {}, "the scores of Occlusion are not differentiable"),
        (
            InputXGradient("sum"),
            {"score": "kl", "sign": "keep"},
            "`score: kl` needs scores without a sign, unlike those of InputXGradient: set `sign",
        ),
        (InputXGradient("sum"), {"score": "bce", "sign": "keep"}, "`score: bce` needs .* a sign, .*: set `sign"),
        (InputXGradient("sum"), {"score": "order", "sign": "keep"}, "`score: order` needs .* a sign, .*: set `sign"),
        (InputXGradient("sum"), {"score": "kl", "normalization": "l2"}, "sum to 1, .*: set `normalization: sum"),
        (Attention(), {"score": "kl", "target": "binary"}, "`target: binary`: set `target: distribution"),
        (Gradient(), {"score": "bce", "normalization": "none"}, "at most 1, .*: set `normalization: l2"),
        (Attention(), {"layers": [2]}, "layers contains 2, but the network has 2 layers"),
        (Attention(), {"heads": [-1]}, "heads contains -1, but the network has 2 attention heads"),
        (AttentionRollout(), {"heads": [0]}, "layers and heads are for Attention, but the method is AttentionRollout"),
        (Attention(), {"layers": []}, r"layers or heads is \[\]"),
        (Attention(), {"scaling": 0.0}, "scaling is 0.0: give a number above 0"),
        (Attention(), {"weight": -1.0}, "weight is -1.0"),
        (Attention(), {"normalization": "no such word"}, "normalization is 'no such word'"),
    ],
)
def test_settings_that_cannot_work_are_refused(method, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        guided(method, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["deberta-v2", "modernbert"])
def test_sum_of_input_x_gradient_is_refused_where_a_norm_takes_the_embeddings(kind):
    with pytest.raises(ValueError, match="InputXGradient with pooling sum is 0 for every token.*embedding: module"):
        guided(InputXGradient("sum"), tiny_classifier(kind))
    guided(InputXGradient("l2"), tiny_classifier(kind))
    guided(InputXGradient("sum"), tiny_classifier(kind, embedding="module"))


@pytest.mark.parametrize("options", [{"explained": "predicted"}, {"unannotated": "empty_target"}])
def test_options_for_single_label_data_are_refused_for_multilabel_networks(options, tiny_plm_ca):
    with pytest.raises(ValueError, match="the data are multi-label: set"):
        guided(Attention(), tiny_plm_ca, **options)


def test_data_without_rationales_are_an_error_before_training(tmp_path, monkeypatch):
    data, collate = planted_data(), TextDataModule.collate
    monkeypatch.setattr(TextDataModule, "collate", lambda self, items: replace(collate(self, items), rationale=None))
    for method in (Attention(), InputXGradient("sum")):
        with pytest.raises(ValueError, match="the training data have no rationales for gold classes"):
            quiet_trainer(tmp_path, max_epochs=1).fit(guided(method), datamodule=data)


def test_rationales_that_truncation_removed_are_an_error_before_training(tmp_path):
    # of 40 words, the first two stay, and none of them is evidence
    data = planted_data(max_length=4, num_train=2, signals_per_document=(1, 1), words_per_document=(40, 40))
    with pytest.raises(ValueError, match="truncation removed the rationales of all training texts: raise the encoder"):
        quiet_trainer(tmp_path, max_epochs=1).fit(
            guided(Attention(), tiny_classifier("bert", num_classes=2)), datamodule=data
        )


def test_a_monitor_or_bound_without_rationales_in_validation_is_refused(tmp_path, monkeypatch):
    data, collate = planted_data(), TextDataModule.collate
    data.batch_size = 8  # the training split is one batch of 8, the validation split one of 4

    def without(self, items):
        batch = collate(self, items)
        return batch if len(batch) == 8 else replace(batch, rationale=None)

    monkeypatch.setattr(TextDataModule, "collate", without)
    network = tiny_classifier("bert", num_classes=2)
    terms: dict[str, Term] = {"guidance": ExplanationGuidance(Attention())}
    bounded = Constrained(network, {"guidance": Constraint(0.1)}, terms)
    joint = Supervised(network, terms=terms)
    monitors = [EarlyStopping("val/loss"), EarlyStopping("val/guidance"), EarlyStopping("val/log_loss")]
    for objective, callback in ((joint, monitors[0]), (joint, monitors[1]), (bounded, monitors[2])):
        trainer = quiet_trainer(tmp_path, max_epochs=1, callbacks=[callback])
        with pytest.raises(ValueError, match="no validation example has a weight above 0 in the term guidance"):
            trainer.fit(objective, datamodule=data)
    quiet_trainer(tmp_path, max_epochs=1, callbacks=[monitors[2]]).fit(joint, datamodule=data)


def test_gradients_as_scores_are_refused_in_float16(tmp_path, monkeypatch):
    # on a processor, Lightning replaces 16-mixed by bf16-mixed
    monkeypatch.setattr(Trainer, "precision", property(lambda _: "16-mixed"))
    network = tiny_classifier("bert", num_classes=2)
    trainer = quiet_trainer(tmp_path, max_epochs=1, limit_train_batches=0)
    with pytest.raises(ValueError, match="16-mixed, but the scores of InputXGradient need gradients"):
        trainer.fit(guided(InputXGradient("sum"), network), datamodule=planted_data())
    trainer.fit(guided(Attention(), network), datamodule=planted_data())


def test_scores_that_are_0_for_an_empty_rationale_leave_out_texts_without_evidence():
    used = {score: default_settings(InputXGradient("sum"), score).unannotated for score in get_args(GuidanceLoss)}
    assert {score for score, unannotated in used.items() if unannotated == "leave_out"} == {"kl", "order"}
