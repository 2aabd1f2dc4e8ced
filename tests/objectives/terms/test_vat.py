"""Virtual adversarial training, against a reference that takes one example at a time in float64."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from lightning_xai.functional.seeds import example_generator
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.vat import VAT, project, symmetric_divergences
from tests.conftest import tiny_classifier
from tests.objectives.conftest import planted_batch

LARGE: dict[str, Any] = {"epsilon": 0.05, "step_size": 10.0, "noise_std": 0.02}


def vat(network, **arguments: Any) -> Supervised:
    return Supervised(network, terms={"vat": VAT(**(LARGE | arguments))})


def log_probabilities(network, logits: torch.Tensor) -> torch.Tensor:
    """One distribution over the classes [1, C] or, for multi-label data, a distribution of each class [C, 2]."""
    return F.logsigmoid(torch.stack([logits[0], -logits[0]], dim=1)) if network.multilabel else logits.log_softmax(1)


def test_divergence_is_the_sum_of_both_directions():
    first, second = torch.randn(4, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    p, q = first.log_softmax(1), second.log_softmax(1)
    both = [F.kl_div(a, b, reduction="none", log_target=True).sum(1) for a, b in ((p, q), (q, p))]
    assert torch.allclose(symmetric_divergences(first, second, multilabel=False), both[0] + both[1])
    bernoulli = torch.distributions.Bernoulli
    kl = torch.distributions.kl_divergence
    pair = bernoulli(logits=first), bernoulli(logits=second)
    expected = (kl(*pair) + kl(*pair[::-1])).mean(dim=1)
    assert torch.allclose(symmetric_divergences(first, second, multilabel=True), expected)


@pytest.mark.parametrize(("name", "projection"), [("bert", "clamp"), ("bert", "divide"), ("plm_ca", "clamp")])
def test_value_is_that_of_a_reference_with_one_example_at_a_time(name, projection):
    network = tiny_classifier(name, dropout=0.0).double()
    batch = planted_batch(num_classes=network.num_classes, multilabel=network.multilabel, num_examples=3)
    objective = vat(network, projection=projection)
    values = objective.term_values(batch, dict(objective.used_terms()))["vat"].values
    seed = objective.step_seed
    for row in range(3):
        length = int(batch.inputs.attention_mask[row].sum())
        inputs = batch.inputs[row : row + 1].trim()
        embeds = network.embed(inputs).detach()
        clean = log_probabilities(network, network(inputs).logits)
        drawn = example_generator(seed, int(batch.index[row]), "VAT").standard_normal((length, embeds.shape[2]))
        noise = (0.02 * torch.from_numpy(drawn)).clamp(-0.05, 0.05).unsqueeze(0)

        def divergence(noise, inputs=inputs, embeds=embeds, clean=clean):
            noisy = log_probabilities(network, network(inputs, embeds + noise).logits)
            return (noisy.exp() * (noisy - clean) + clean.exp() * (clean - noisy)).sum() / len(noisy)

        for _ in range(2):
            noise = noise.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(divergence(noise), noise)
            noise = project((noise + 10.0 * gradient).detach(), 0.05, projection=projection)
        assert values[row].item() == pytest.approx(divergence(noise).item(), rel=1e-6)


def test_search_finds_a_larger_divergence_than_its_random_start():
    network, batch = tiny_classifier("bert", dropout=0.0), planted_batch()
    searched = vat(network).losses(batch)["vat"]
    random = vat(network, step_size=1e-12).losses(batch)["vat"]
    assert searched > 1.5 * random


def test_shared_dropout_measures_the_noise_and_independent_dropout_measures_dropout():
    network = tiny_classifier("plm_ca", dropout=0.1).train()
    batch = planted_batch(num_classes=5, multilabel=True)
    shared = vat(network, epsilon=1e-5, step_size=1e-3, noise_std=1e-5).losses(batch)["vat"]
    independent = vat(network, epsilon=1e-5, step_size=1e-3, noise_std=1e-5, dropout="independent").losses(batch)["vat"]
    assert shared < 1e-6 < 1e-4 < independent


@pytest.mark.parametrize(
    "arguments", [{"epsilon": 0.0}, {"step_size": -1.0}, {"noise_std": float("nan")}, {"num_steps": 0}]
)
def test_numbers_out_of_range_are_refused(arguments: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        VAT(**arguments)
