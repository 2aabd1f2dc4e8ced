"""With checkpointing, a training step gives the same numbers from fewer stored activations."""

import pytest
import torch
from lightning import Trainer

from lightning_xai.callbacks import gradient_checkpointing
from lightning_xai.callbacks.gradient_checkpointing import GradientCheckpointing
from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.mask_search import sparse_variable
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.base import Task
from lightning_xai.objectives.terms.input_gradient import InputGradient
from lightning_xai.objectives.terms.pgd import PGD, worst_variable
from lightning_xai.objectives.terms.vat import VAT
from lightning_xai.types import Batch
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

TRAINER = Trainer(logger=False, accelerator="cpu", enable_progress_bar=False)


def step(terms, *, checkpointing: bool, bfloat16: bool = False):
    """Returns losses, gradients of all weights, and the number of stored elements of a step with dropout."""
    objective = Supervised(tiny_classifier("plm_ca", config=TINY_CONFIGS["bert"], dropout=0.3), terms=terms).train()
    if checkpointing:
        GradientCheckpointing().setup(TRAINER, objective, "fit")
    stored = []

    def pack(tensor):
        stored.append(tensor.numel())
        return tensor

    torch.manual_seed(1)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=bfloat16)
    with autocast, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        losses = objective.losses(Batch(text_inputs([70, 30]), torch.ones(2, 5)))
    num_stored = sum(stored)
    losses["loss"].backward()
    return losses, [weight.grad for weight in objective.network.parameters()], num_stored


@pytest.mark.parametrize(
    "make",
    [
        dict,
        lambda: {"vat": VAT()},
        lambda: {"pgd": PGD(epsilon=0.1, search=Search(num_steps=2))},
        lambda: {"igr": InputGradient(weight=1.0)},
    ],
)
def test_losses_and_gradients_are_the_same_with_dropout(make):
    losses, gradients, stored = step(make(), checkpointing=False)
    same_losses, same_gradients, fewer = step(make(), checkpointing=True)
    torch.testing.assert_close(same_losses, losses)
    torch.testing.assert_close(same_gradients, gradients, rtol=1e-4, atol=1e-6)
    if not make():
        assert fewer < stored / 2


def test_a_step_in_bfloat16_has_about_the_same_gradients_either_way():
    gradients = []
    for checkpointing in (False, True):
        losses, found, _ = step({}, checkpointing=checkpointing, bfloat16=True)
        assert losses["loss"].dtype == torch.float32
        gradients.append(torch.cat([gradient.flatten() for gradient in found]))
    plain, again = gradients
    exact = torch.cat([gradient.flatten() for gradient in step({}, checkpointing=False)[1]])
    torch.testing.assert_close(again, plain)
    assert (plain - exact).norm() < 0.05 * exact.norm() and not torch.equal(plain, exact)


def stored_and_found(search, network):
    """Returns the number of elements that a search stores, the tensor that it finds, and the layers' forward passes."""
    stored, passes = [], []
    hook = network.transformer.encoder.layer[0].attention.register_forward_hook(lambda *_: passes.append(1))

    def pack(tensor):
        stored.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        found = search(network).variable
    hook.remove()
    return sum(stored), found, len(passes)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["pgd", "token masking"])
def test_searches_store_less_and_find_the_same(name, kernel):
    batch = Batch(text_inputs([70, 30]), torch.ones(2, 5))
    three = Search(num_steps=3, lr=0.5)

    def noise(network):
        return worst_variable(Task(network, batch, lambda logits: logits.square().sum(dim=1), 0), three, epsilon=0.1)

    def mask(network):
        return sparse_variable(network, batch.inputs, three)

    network = tiny_classifier("plm_ca", dropout=0.3).train()
    network.set_attention(kernel)
    search = noise if name == "pgd" else mask
    stored, found, passes = stored_and_found(search, network)
    GradientCheckpointing().setup(TRAINER, Supervised(network), "fit")
    fewer, same, more = stored_and_found(search, network)
    torch.testing.assert_close(same, found)
    assert fewer < stored / 2 and more == passes + 3  # a forward pass more for each step
    assert network.training and all("forward" not in vars(part) for part in network.modules())


def test_second_derivatives_are_compared_at_setup(monkeypatch):
    objective = Supervised(tiny_classifier("plm_ca"), terms={"igr": InputGradient()})
    exact = gradient_checkpointing.second_derivatives

    def wrong(network, inputs):
        factor = 2.0 if network.transformer.encoder.layer[0].gradient_checkpointing else 1.0
        return [factor * derivative for derivative in exact(network, inputs)]

    monkeypatch.setattr(gradient_checkpointing, "second_derivatives", wrong)
    with pytest.raises(ValueError, match="gradient checkpointing changes second derivatives"):
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
    with pytest.raises(ValueError, match="BiLSTMAttention has no layers .* remove GradientCheckpointing"):
        GradientCheckpointing().setup(TRAINER, objective, "fit")
