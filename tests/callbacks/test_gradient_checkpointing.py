"""With checkpointing, a training step gives the same numbers from fewer stored activations."""

import pytest
import torch
from lightning import Trainer

from lightning_xai.callbacks import gradient_checkpointing
from lightning_xai.callbacks.gradient_checkpointing import GradientCheckpointing
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.input_gradient import InputGradient
from lightning_xai.objectives.terms.vat import VAT
from lightning_xai.types import Batch
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

TRAINER = Trainer(logger=False, accelerator="cpu", enable_progress_bar=False)


def step(terms, *, checkpointing: bool):
    """Returns losses, gradients of all weights, and the number of stored elements of a step with dropout."""
    objective = Supervised(tiny_classifier("plm_ca", config=TINY_CONFIGS["bert"], dropout=0.3), terms=terms).train()
    if checkpointing:
        GradientCheckpointing().setup(TRAINER, objective, "fit")
    stored = []

    def pack(tensor):
        stored.append(tensor.numel())
        return tensor

    torch.manual_seed(1)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        losses = objective.losses(Batch(text_inputs([70, 30]), torch.ones(2, 5)))
    num_stored = sum(stored)
    losses["loss"].backward()
    return losses, [weight.grad for weight in objective.network.parameters()], num_stored


@pytest.mark.parametrize("make", [dict, lambda: {"vat": VAT()}, lambda: {"igr": InputGradient(weight=1.0)}])
def test_losses_and_gradients_are_the_same_with_dropout(make):
    losses, gradients, stored = step(make(), checkpointing=False)
    same_losses, same_gradients, fewer = step(make(), checkpointing=True)
    torch.testing.assert_close(same_losses, losses)
    torch.testing.assert_close(same_gradients, gradients, rtol=1e-4, atol=1e-6)
    if not make():
        assert fewer < stored / 2


def test_second_derivatives_are_compared_at_setup(monkeypatch):
    objective = Supervised(tiny_classifier("plm_ca"), terms={"igr": InputGradient()})
    exact = gradient_checkpointing.second_derivatives

    def wrong(network, inputs):
        factor = 2.0 if network.transformer.encoder.layer[0].gradient_checkpointing else 1.0
        return [factor * derivative for derivative in exact(network, inputs)]

    monkeypatch.setattr(gradient_checkpointing, "second_derivatives", wrong)
    with pytest.raises(ValueError, match="second derivatives change with gradient checkpointing"):
        GradientCheckpointing().setup(TRAINER, objective, "fit")


def test_setup_changes_no_mode_gradient_or_random_number():
    objective = Supervised(tiny_classifier("plm_ca", dropout=0.3), terms={"igr": InputGradient()})
    modes = [part.training for part in objective.modules()]
    before = torch.get_rng_state()
    GradientCheckpointing().setup(TRAINER, objective, "fit")
    assert torch.equal(torch.get_rng_state(), before)
    assert [part.training for part in objective.modules()] == modes
    assert all(weight.grad is None for weight in objective.parameters())


def test_teardown_switches_it_off(tiny_plm_ca):
    objective, callback = Supervised(tiny_plm_ca), GradientCheckpointing()
    callback.setup(TRAINER, objective, "fit")
    assert tiny_plm_ca.transformer.encoder.layer[1].gradient_checkpointing
    callback.teardown(TRAINER, objective, "fit")
    assert not tiny_plm_ca.transformer.encoder.layer[1].gradient_checkpointing


def test_a_test_changes_nothing(tiny_plm_ca):
    GradientCheckpointing().setup(TRAINER, Supervised(tiny_plm_ca), "test")
    assert not tiny_plm_ca.transformer.encoder.layer[0].gradient_checkpointing


def test_a_network_without_such_layers_is_refused():
    from lightning_xai.models.bilstm import BiLSTMAttention

    objective = Supervised(BiLSTMAttention(vocab_size=10, num_classes=2))
    with pytest.raises(ValueError, match="BiLSTMAttention has no layers .* leave out GradientCheckpointing"):
        GradientCheckpointing().setup(TRAINER, objective, "fit")
