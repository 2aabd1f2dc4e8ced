"""Attention supervised by evidence."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.functional.attention import target_rows
from lightning_xai.models.base import Classifier
from lightning_xai.objectives.losses import Reduction, evidence_divergences
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.supervised_attention import SupervisedAttention
from lightning_xai.types import Attribution, Batch
from tests.conftest import tiny_classifier
from tests.objectives.conftest import fast_optimizer, loader, planted_batch, quiet_trainer

DATA: dict[str, Any] = {"num_classes": 5, "multilabel": True}


def b_s(network: Classifier, **arguments: Any) -> Supervised:
    """Returns Supervised with the term; keyword arguments of the objective are recognized by name."""
    own = {name: arguments.pop(name) for name in ("optimizer", "warmup_fraction") if name in arguments}
    return Supervised(network, terms={"attention": SupervisedAttention(**arguments)}, **own)


def remove_evidence(data: DataLoader[Batch]) -> None:
    for batch in data:
        assert batch.rationale is not None
        batch.rationale.scores.zero_()


def plain_descent(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def two_code_batch() -> Batch:
    """Returns one document with the gold classes 3 and 1, in that order, each with its own evidence."""
    batch = planted_batch(num_examples=1, **DATA)
    labels = torch.tensor([[0.0, 1, 0, 1, 0]])
    scores = torch.zeros(1, 3, 10)
    scores[0, 0, 1], scores[0, 1, 2], scores[0, 2, 3] = 1, 1, 1
    targets = torch.tensor([[3, 1, 0]])  # class 0 has evidence but is not gold
    mask = torch.ones(1, 3, dtype=torch.bool)
    return replace(batch, labels=labels, rationale=Attribution(scores, targets, mask, batch.inputs.token_mask))


def test_evidence_meets_attention_by_class_and_counts_gold_classes_only(tiny_plm_ca):
    batch = two_code_batch()
    losses = b_s(tiny_plm_ca, reduction="per_code").losses(batch)
    readout = tiny_plm_ca(batch.inputs).readout
    expected = -(readout[0, 3, 1].log() + readout[0, 1, 2].log()) / 2  # KL from one evidence token is -log attention
    assert losses["attention"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_order_of_the_evidence_rows_does_not_matter(tiny_plm_ca):
    batch = two_code_batch()
    rationale = batch.rationale
    assert rationale is not None
    flipped = Attribution(
        rationale.scores.flip(1), rationale.targets.flip(1), rationale.target_mask, rationale.token_mask
    )
    objective = b_s(tiny_plm_ca)
    first, second = objective.losses(batch), objective.losses(replace(batch, rationale=flipped))
    assert torch.allclose(first["attention"], second["attention"])


def test_paper_reduction_divides_by_codes_and_padded_length(tiny_plm_ca):
    batch = two_code_batch()
    per_code = b_s(tiny_plm_ca, reduction="per_code").losses(batch)["attention"]
    paper = b_s(tiny_plm_ca, reduction="paper").losses(batch)["attention"]
    assert paper.item() == pytest.approx(per_code.item() / tiny_plm_ca(batch.inputs).readout.shape[-1], rel=1e-5)


def test_loss_is_classification_plus_weighted_attention(tiny_plm_ca):
    losses = b_s(tiny_plm_ca, weight=0.25).losses(two_code_batch())
    assert losses["loss"].item() == pytest.approx((losses["classification"] + 0.25 * losses["attention"]).item())


@pytest.mark.slow
def test_training_moves_attention_onto_evidence(tmp_path):
    network = tiny_classifier("plm_ca", dropout=0.0)  # dropout would make the outcome random
    batch = planted_batch(**DATA)

    def divergence() -> float:
        rationale = batch.rationale
        assert rationale is not None
        readout = target_rows(network.eval()(batch.inputs).readout, rationale.targets)
        return evidence_divergences(readout, rationale.scores > 0).mean().item()

    before = divergence()
    objective = b_s(network, optimizer=fast_optimizer, warmup_fraction=0.0, weight=1.0, reduction="per_code")
    quiet_trainer(tmp_path, max_epochs=5).fit(objective, loader(4, **DATA))
    assert divergence() < 0.5 * before


def evidence_data(batch_size: int, **source: Any) -> TextDataModule:
    """Returns eight documents of ten words; each of their classes has 0 to 2 evidence words."""
    sizes: dict[str, Any] = {"num_train": 8, "num_validation": 2, "num_test": 2, "words_per_document": (10, 10)}
    sizes |= {"signals_per_document": (0, 2)}
    planted = Planted(num_classes=3, multilabel=True, **(sizes | source))
    return TextDataModule(planted, VocabularyEncoder(words=95, max_length=16), batch_size=batch_size)


@pytest.mark.parametrize("reduction", ["per_code", "paper"])
def test_step_of_two_micro_batches_changes_the_weights_as_one_of_their_size(reduction: Reduction, tmp_path):
    weights = []
    for batch_size, accumulated in ((8, 1), (4, 2), (2, 4)):
        network = tiny_classifier("plm_ca", num_classes=3, dropout=0.0).double()
        objective = b_s(network, optimizer=plain_descent, warmup_fraction=0.0, reduction=reduction, weight=1.0)
        trainer = quiet_trainer(tmp_path, max_epochs=1, accumulate_grad_batches=accumulated, limit_val_batches=0)
        trainer.fit(objective, datamodule=evidence_data(batch_size))
        assert trainer.global_step == 1
        weights.append({name: value.clone() for name, value in network.named_parameters()})
    for other in weights[1:]:
        assert all(torch.allclose(weights[0][name], other[name], rtol=1e-9, atol=1e-12) for name in other)


def test_expected_weight_is_the_mean_over_the_training_split(tiny_plm_ca, tmp_path):
    data = evidence_data(8)
    data.setup("fit")
    numbers = [len(encoded.rationales) for encoded in data.split("train").encoded]
    assert len(set(numbers)) > 1
    means: dict[Reduction, float] = {"per_code": sum(numbers) / 8, "paper": sum(n > 0 for n in numbers) / 8}
    for reduction, expected in means.items():
        objective = b_s(tiny_classifier("plm_ca", num_classes=3), reduction=reduction)
        quiet_trainer(tmp_path, max_epochs=1, limit_train_batches=0).fit(objective, datamodule=data)
        assert objective.expected_weights["attention"] == pytest.approx(expected)


def test_training_split_without_any_evidence_is_an_error_before_training(tmp_path):
    objective = b_s(tiny_classifier("plm_ca", num_classes=3))
    with pytest.raises(ValueError, match="no training example has a weight above 0 in the term attention"):
        quiet_trainer(tmp_path, max_epochs=1).fit(objective, datamodule=evidence_data(8, signals_per_document=(0, 0)))


def test_network_without_attention_as_readout_is_refused(tiny_hf):
    with pytest.raises(ValueError, match="the classification head of HFClassifier does not attend to tokens"):
        b_s(tiny_hf)


def test_data_without_rationales_is_an_error(tiny_plm_ca):
    with pytest.raises(ValueError, match="the data have no rationales"):
        b_s(tiny_plm_ca).losses(replace(planted_batch(**DATA), rationale=None))


def test_epoch_without_any_evidence_is_an_error(tiny_plm_ca, tmp_path):
    data = loader(2, **DATA)
    remove_evidence(data)
    with pytest.raises(ValueError, match="no example of this epoch has a weight above 0 in the term attention"):
        quiet_trainer(tmp_path, max_epochs=1).fit(b_s(tiny_plm_ca), data)


def test_rest_of_a_resumed_epoch_may_have_no_evidence(tmp_path):
    data = loader(3, **DATA)

    def fit(**arguments):
        objective = b_s(tiny_classifier("plm_ca"), optimizer=fast_optimizer)
        saving = ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, every_n_train_steps=1)
        trainer = quiet_trainer(tmp_path, max_epochs=1, enable_checkpointing=True, callbacks=[saving])
        trainer.fit(objective, data, weights_only=True, **arguments)
        return trainer.global_step

    fit()
    remove_evidence(data)
    assert fit(ckpt_path=tmp_path / "step=2.ckpt") > 2
