"""A student that learns from its teacher to need few tokens."""

import json
from typing import Any

import pytest
import torch
from lightning import LightningDataModule

from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.losses import probability_distances
from lightning_xai.objectives.mask_search import Mask, mask_sizes, masked_logits, sparse_variable
from lightning_xai.objectives.token_masking import TokenMasking
from lightning_xai.runs.format import with_format
from tests.conftest import TINY_CONFIGS, tiny_classifier
from tests.objectives.conftest import fast_optimizer, loader, planted_batch, quiet_trainer, save_teacher


@pytest.fixture
def hf_teacher(tmp_path) -> str:
    return save_teacher(tiny_classifier("bert", seed=1), tmp_path / "teacher.ckpt")


def ready(network, teacher, **arguments) -> TokenMasking:
    objective = TokenMasking(network, teacher, **arguments)
    objective.setup("fit")
    return objective


def test_outer_loss_is_that_of_oracle_e15():
    student, teacher, masked = torch.tensor([[[0.9, 0.2]], [[0.8, 0.3]], [[0.7, 0.1]]], dtype=torch.float64)
    loss = probability_distances(student, teacher).mean() + 1.0 * probability_distances(student, masked).mean()
    assert loss.item() == pytest.approx(0.5)


def test_mask_starts_at_the_value_of_oracle_e15(tiny_hf):
    sparse = sparse_variable(tiny_hf, planted_batch().inputs, Search(num_steps=1, lr=1e-12, weight_decay=0.0))
    assert sparse.variable.sigmoid().unique().item() == pytest.approx(0.880797, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["token", "dimension"])
def test_search_drops_what_the_prediction_does_not_need(mask: Mask, tiny_hf):
    inputs = planted_batch().inputs
    search = Search(num_steps=40)
    sparse = sparse_variable(tiny_hf, inputs, search, mask=mask, fidelity_weight=0.0).variable > 0
    faithful = sparse_variable(tiny_hf, inputs, search, mask=mask, fidelity_weight=2.0).variable > 0
    assert not sparse[inputs.token_mask].any()
    kept = mask_sizes(faithful.float(), inputs.token_mask, sparsity="mean").mean()
    assert 0.1 < kept < 0.95


@pytest.mark.slow
def test_mask_with_fidelity_keeps_probabilities_better_than_one_without(tiny_hf):
    inputs = planted_batch().inputs
    probs = tiny_hf.predict(inputs)

    def change(fidelity_weight):
        keep = sparse_variable(tiny_hf, inputs, Search(num_steps=40), fidelity_weight=fidelity_weight).variable > 0
        return probability_distances(tiny_hf.probabilities(masked_logits(tiny_hf, inputs, keep)), probs).mean()

    assert change(10.0) < 0.5 * change(0.0)


@pytest.mark.slow
def test_mask_of_an_example_does_not_depend_on_its_neighbors(tiny_hf):
    inputs = planted_batch().inputs
    search = Search(num_steps=20, tolerance=0.01)
    tiny_hf.double()
    together = sparse_variable(tiny_hf, inputs, search, fidelity_weight=10.0)
    for row in range(len(inputs)):
        alone = sparse_variable(tiny_hf, inputs[row : row + 1], search, fidelity_weight=10.0)
        assert torch.allclose(alone.variable[0], together.variable[row], atol=1e-8)


def test_three_percent_tolerance_stops_before_any_token_is_dropped(tiny_hf):
    sparse = sparse_variable(tiny_hf, planted_batch().inputs, Search(num_steps=20, tolerance=0.03, stop="batch"))
    assert sparse.num_steps.unique().tolist() == [3]
    assert sparse.variable.sigmoid().min() > 0.8


def test_sizes_of_masks_leave_out_padding():
    masks = torch.tensor([[[0.5], [0.25], [9.0]]])
    token_mask = torch.tensor([[True, True, False]])
    assert mask_sizes(masks, token_mask, sparsity="sum").item() == 0.75
    assert mask_sizes(masks, token_mask, sparsity="mean").item() == 0.375


@pytest.mark.parametrize("width", [1, 16])
def test_dropping_everything_gives_the_logits_of_the_baseline(width, tiny_hf):
    inputs = planted_batch().inputs
    baseline = type(inputs)(**(vars(inputs) | {"input_ids": inputs.baseline_ids}))
    nothing = torch.zeros(len(inputs), 10, width, dtype=torch.bool)
    assert torch.allclose(masked_logits(tiny_hf, inputs, nothing), tiny_hf(baseline).logits, atol=1e-6)


@pytest.mark.parametrize("width", [1, 16])
def test_keeping_everything_gives_the_logits_of_the_inputs(width, tiny_hf):
    inputs = planted_batch().inputs
    everything = torch.ones(len(inputs), 10, width, dtype=torch.bool)
    assert torch.allclose(masked_logits(tiny_hf, inputs, everything), tiny_hf(inputs).logits, atol=1e-6)


def test_student_starts_as_its_teacher(hf_teacher, tiny_hf):
    objective = ready(tiny_hf, hf_teacher).eval()
    losses = objective.losses(planted_batch())
    assert losses["distillation"] == 0 and losses["masking"] > 0
    assert losses["loss"].item() == pytest.approx(0.5 * losses["masking"].item())


@pytest.mark.slow
@pytest.mark.parametrize("stop_gradient", [False, True])
def test_stop_gradient_changes_the_gradient_and_not_the_loss(stop_gradient, hf_teacher, tiny_hf):
    losses = ready(tiny_hf, hf_teacher, stop_gradient=stop_gradient).eval().losses(planted_batch())
    other_network = tiny_classifier("bert")
    other_losses = ready(other_network, hf_teacher, stop_gradient=not stop_gradient).eval().losses(planted_batch())
    assert losses["loss"].item() == pytest.approx(other_losses["loss"].item())
    (gradient,) = torch.autograd.grad(losses["masking"], tiny_hf.transformer.classifier.weight)
    (other_gradient,) = torch.autograd.grad(other_losses["masking"], other_network.transformer.classifier.weight)
    assert not torch.allclose(gradient, other_gradient)


@pytest.mark.slow
def test_training_brings_masked_predictions_nearer(hf_teacher, tmp_path):
    def optimizer(parameters):
        return torch.optim.AdamW(parameters, lr=1e-3)

    network = tiny_classifier("bert", dropout=0.0)
    objective = TokenMasking(network, hf_teacher, optimizer, search=Search(20), fidelity_weight=1.0, masked_weight=1.0)
    objective.setup("fit")
    before = objective.losses(planted_batch())["loss"].item()
    quiet_trainer(tmp_path, max_epochs=5).fit(objective, loader(2))
    assert objective.losses(planted_batch())["loss"].item() < 0.8 * before


def test_teacher_stays_out_of_parameters_and_checkpoints_and_unchanged(hf_teacher, tmp_path):
    objective = TokenMasking(tiny_classifier("bert"), hf_teacher, fast_optimizer, search=Search(3))
    trainer = quiet_trainer(tmp_path, max_epochs=1)
    trainer.fit(objective, loader(2))
    trainer.save_checkpoint(tmp_path / "student.ckpt")
    checkpoint = torch.load(tmp_path / "student.ckpt", weights_only=True)
    assert all(name.startswith(("network.", "decision_threshold")) for name in checkpoint["state_dict"])
    assert checkpoint["teacher"]["teacher"] == hf_teacher and checkpoint["teacher"]["teacher_hash"]
    expected = tiny_classifier("bert", seed=1).state_dict()
    (teacher,) = objective._teacher
    assert all(torch.equal(value, expected[name]) for name, value in teacher.state_dict().items())
    assert not any(module.training for module in teacher.modules())


@pytest.mark.slow
def test_resume_with_another_teacher_is_refused(hf_teacher, tmp_path):
    def fit(**arguments):
        trainer = quiet_trainer(tmp_path, max_epochs=1)
        objective = TokenMasking(tiny_classifier("bert"), hf_teacher, fast_optimizer, search=Search(3))
        trainer.fit(objective, loader(1), weights_only=True, **arguments)
        return trainer

    student = tmp_path / "student.ckpt"
    fit().save_checkpoint(student)
    fit(ckpt_path=student)
    save_teacher(tiny_classifier("bert", seed=2), tmp_path / "teacher.ckpt")
    with pytest.raises(ValueError, match="the fit began with a teacher .* restore the former teacher"):
        fit(ckpt_path=student)


def test_teacher_with_other_classes_is_refused(hf_teacher):
    with pytest.raises(ValueError, match=r"has 3 classes .* the network has 4"):
        ready(tiny_classifier("bert", num_classes=4), hf_teacher)


def test_teacher_with_other_shapes_is_refused(hf_teacher):
    network = tiny_classifier("bert", config=TINY_CONFIGS["bert"] | {"intermediate_size": 32})
    with pytest.raises(ValueError, match=r"is \(24,\) in the teacher .* and \(32,\) in the network"):
        ready(network, hf_teacher)


def test_missing_teacher_is_an_error_at_construction(tiny_hf):
    with pytest.raises(ValueError, match="teacher nowhere.ckpt does not exist"):
        TokenMasking(tiny_hf, "nowhere.ckpt")


def test_teacher_from_a_config_is_asked_for_until_its_run_is_finished(tiny_hf, tmp_path):
    objective = TokenMasking(tiny_hf, "tm_teacher.yaml", search=Search(3))
    trainer = quiet_trainer(tmp_path / "tm" / "seed3", max_epochs=1)
    missing = ["--config", "tm_teacher.yaml", f"--runs_dir={tmp_path}", "--experiment=tm_teacher"]
    run = tmp_path / "tm_teacher" / "seed3"
    assert objective.runs_before(trainer, LightningDataModule()) == missing
    save_teacher(tiny_classifier("bert", seed=1), run / "checkpoints" / "best.ckpt")
    assert objective.runs_before(trainer, LightningDataModule()) == missing
    (run / "manifest.json").write_text(json.dumps(with_format({"status": "running"})))
    assert objective.runs_before(trainer, LightningDataModule()) == missing
    (run / "manifest.json").write_text(json.dumps(with_format({"status": "finished"})))
    assert objective.runs_before(trainer, LightningDataModule()) == []
    trainer.fit(objective, loader(1))
    assert objective._teacher_facts["teacher"] == str(run)


def test_fit_without_the_teachers_run_is_an_error(tiny_hf, tmp_path):
    trainer = quiet_trainer(tmp_path / "tm" / "seed0", max_epochs=1)
    with pytest.raises(ValueError, match="seed0, which is not finished"):
        trainer.fit(TokenMasking(tiny_hf, "tm_teacher.yaml"), loader(1))


def test_nothing_is_asked_for_when_the_teacher_is_a_checkpoint(hf_teacher, tiny_hf, tmp_path):
    assert TokenMasking(tiny_hf, hf_teacher).runs_before(quiet_trainer(tmp_path), LightningDataModule()) == []


@pytest.mark.parametrize("arguments", [{"fidelity_weight": -1.0}, {"masked_weight": -1.0}])
def test_numbers_out_of_range_are_refused(arguments: dict[str, Any], hf_teacher, tiny_hf):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        TokenMasking(tiny_hf, hf_teacher, **arguments)
