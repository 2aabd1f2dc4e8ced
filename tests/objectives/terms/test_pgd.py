"""Noise that raises the loss within its bound."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from jsonargparse import ArgumentParser

from lightning_xai.models.base import Classifier
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.inner_search import Minimum, Search
from lightning_xai.objectives.losses import example_losses
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms import pgd
from lightning_xai.objectives.terms.pgd import DEFAULT_SEARCH, PGD, bounded_noise, initial_variable
from lightning_xai.types import Batch
from tests.conftest import tiny_classifier
from tests.objectives.conftest import fast_optimizer, loader, planted_batch, quiet_trainer

SEARCH = Search(num_steps=10, lr=0.1, weight_decay=0.01, tolerance=None)


def worst_variable(network: Classifier, batch: Batch, search: Search, **options: Any) -> Minimum:
    return pgd.worst_variable(Supervised(network).task(batch), search, **options)


def trained_by_pgd(network: Classifier, **arguments: Any) -> Supervised:
    """Returns Supervised with the term; keyword arguments of the objective are recognized by name."""
    own = {n: arguments.pop(n) for n in ("optimizer", "warmup_fraction", "task_weight") if n in arguments}
    return Supervised(network, terms={"pgd": PGD(**arguments)}, **own)


def losses_under(network, batch, noise):
    return example_losses(network(batch.inputs, network.embed(batch.inputs) + noise).logits, batch.labels)


@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
@pytest.mark.parametrize("options", [{}, {"step_rule": "sign"}, {"initialization": "uniform"}])
def test_search_raises_every_examples_loss_within_the_bound(kind: str, options: dict[str, Any]):
    network = tiny_classifier(kind)
    batch = planted_batch(num_classes=network.num_classes, multilabel=network.multilabel)
    worst = worst_variable(network, batch, SEARCH, epsilon=0.05, **options)
    noise = bounded_noise(worst.variable, 0.05, batch.inputs.attention_mask)
    assert noise.abs().max() <= 0.05
    assert (losses_under(network, batch, noise) > losses_under(network, batch, 0)).all()


def test_search_beats_random_noise_of_the_same_bound(tiny_hf):
    batch = planted_batch()
    worst = bounded_noise(
        worst_variable(tiny_hf, batch, SEARCH, epsilon=0.05).variable, 0.05, batch.inputs.attention_mask
    )
    generator = torch.Generator().manual_seed(0)
    signs = torch.randn(worst.shape, generator=generator).sign() * worst.abs().max()
    assert losses_under(tiny_hf, batch, worst).mean() > losses_under(tiny_hf, batch, signs).mean()


def test_padding_gets_no_noise():
    batch = planted_batch()
    noise = bounded_noise(torch.ones(len(batch), 10, 16), 0.05, batch.inputs.attention_mask)
    assert not noise[~batch.inputs.attention_mask].any()


@pytest.mark.slow
def test_noise_of_an_example_does_not_depend_on_its_neighbors(tiny_hf):
    tiny_hf.double()
    batch = planted_batch()

    def search(batch: Batch) -> Minimum:
        settings = replace(SEARCH, tolerance=0.05)
        return worst_variable(tiny_hf, batch, settings, epsilon=0.05, initialization="uniform")

    together = search(batch)
    for row in range(len(batch)):
        alone = search(batch[row : row + 1])
        assert torch.allclose(alone.variable[0], together.variable[row], atol=1e-6)
        assert alone.num_steps[0] == together.num_steps[row]


def test_tiny_epsilon_does_not_stall_the_search(tiny_hf):
    variable = worst_variable(tiny_hf, planted_batch(), SEARCH, epsilon=1e-5).variable
    assert variable.abs().max() == pytest.approx(1.0, rel=0.1)  # after 10 steps of 0.1


def test_unchanging_loss_stops_the_search_at_the_third_step(tiny_hf):
    worst = worst_variable(tiny_hf, planted_batch(), replace(SEARCH, tolerance=0.005), epsilon=1e-5)
    assert worst.num_steps.unique().tolist() == [3]


@pytest.mark.parametrize("epsilon", [1e-5, 1e-4, 1e-3, 1e-2])
def test_default_search_takes_the_noise_to_its_bound(tiny_hf, epsilon):
    batch = planted_batch()
    worst = worst_variable(tiny_hf, batch, DEFAULT_SEARCH, epsilon=epsilon)
    assert worst.num_steps.unique().tolist() == [DEFAULT_SEARCH.num_steps]
    noise = bounded_noise(worst.variable, epsilon, batch.inputs.attention_mask)[batch.inputs.attention_mask]
    assert noise.abs().median() > 0.95 * epsilon


def test_uniform_start_lies_within_epsilon_and_follows_the_seed():
    embeds, index = torch.zeros(2, 3, 4), torch.tensor([7, 8])
    first, again, other = (
        initial_variable(embeds, index, epsilon=0.1, initialization="uniform", seed=seed) for seed in (0, 0, 1)
    )
    assert 0.05 < first.abs().max() <= 0.1
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_loss_weighs_clean_and_adversarial_parts(tiny_hf):
    objective = trained_by_pgd(
        tiny_hf, task_weight=0.25, weight=2.0, epsilon=0.05, search=replace(DEFAULT_SEARCH, num_steps=3)
    )
    losses = objective.losses(planted_batch())
    expected = 0.25 * losses["classification"] + 2 * losses["pgd"]
    assert losses["loss"].item() == pytest.approx(expected.item())
    assert losses["pgd"] > losses["classification"]


@pytest.mark.slow
def test_training_lowers_the_loss_under_noise(tmp_path):
    network, batch = tiny_classifier("bert", dropout=0.0), planted_batch()

    def worst_loss():
        noise = bounded_noise(
            worst_variable(network, batch, SEARCH, epsilon=0.05).variable, 0.05, batch.inputs.attention_mask
        )
        return losses_under(network.eval(), batch, noise).mean().item()

    before = worst_loss()
    objective = trained_by_pgd(
        network, optimizer=fast_optimizer, warmup_fraction=0.0, epsilon=0.05, search=replace(SEARCH, num_steps=5)
    )
    quiet_trainer(tmp_path, max_epochs=5).fit(objective, loader(4))
    assert worst_loss() < 0.7 * before


def test_search_with_weights_that_overflow_names_the_examples(tiny_hf):
    with torch.no_grad():
        tiny_hf.transformer.classifier.weight.fill_(float("inf"))
    with pytest.raises(
        ValueError, match=r"adversarial noise of the examples with indices \[0, 1, 2, 3, 4, 5\] is not finite"
    ):
        trained_by_pgd(tiny_hf).losses(planted_batch())


@pytest.mark.parametrize("arguments", [{"epsilon": 0.0}, {"weight": -1.0}])
def test_numbers_out_of_range_are_refused(arguments: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        PGD(**arguments)


def test_a_configuration_that_names_one_setting_of_the_search_keeps_the_others():
    parser = ArgumentParser()
    parser.add_argument("--objective", type=Objective)
    network = {"class_path": "lightning_xai.models.hf_classifier.HFClassifier"}
    term = {"class_path": "lightning_xai.objectives.terms.pgd.PGD", "init_args": {"search": {"num_steps": 3}}}
    arguments = {"network": network, "terms": {"pgd": term}}
    config = parser.parse_object(
        {"objective": {"class_path": "lightning_xai.objectives.supervised.Supervised", "init_args": arguments}}
    )
    search = config.objective.init_args.terms["pgd"].init_args.search
    assert search.num_steps == 3
    assert search.tolerance == DEFAULT_SEARCH.tolerance
