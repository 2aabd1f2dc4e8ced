"""Penalties on input gradients, against the numbers of oracle E8 and one example at a time."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from lightning import LightningModule
from torch import nn
from torch.nn import functional as F

from lightning_xai.models.base import Classifier
from lightning_xai.objectives.losses import example_losses
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.input_gradient import (
    GradientNorm,
    InputGradient,
    gradient_norms,
    micro_batch_norm,
    table_norms,
)
from tests.conftest import tiny_classifier
from tests.objectives.conftest import fast_optimizer, loader, planted_batch, quiet_trainer
from tests.objectives.two_processes import STEPS


def igr(network: Classifier, **arguments: Any) -> Supervised:
    """Returns Supervised with the term; keyword arguments of the objective are recognized by name."""
    own = {name: arguments.pop(name) for name in ("optimizer", "warmup_fraction") if name in arguments}
    return Supervised(network, terms={"igr": InputGradient(**arguments)}, **own)


def mean_embedding_loss(ids):
    """Oracle E8: embeddings zero, z = mean(e) . (3, 4), binary cross-entropy of label 0."""
    table = nn.Parameter(torch.zeros(5, 2, dtype=torch.float64))
    embeds = table[torch.tensor([ids])]  # [1, T, 2]
    logits = embeds.mean(dim=1) @ torch.tensor([3.0, 4.0], dtype=torch.float64)
    return F.softplus(logits), embeds, table


@pytest.mark.parametrize(
    ("ids", "rows", "positions", "frobenius"),
    [([0, 1], 2.5, 2.5, 1.767767), ([0, 0], 2.5, 2.5, 1.767767), ([0, 0, 1, 2], 2.5, 2.5, 1.25)],
)
@pytest.mark.parametrize("per", ["example", "micro_batch"])
def test_penalties_are_those_of_oracle_e8(ids, rows, positions, frobenius, per):
    losses, embeds, table = mean_embedding_loss(ids)
    assert table_norms(losses, table, norm="token_sum", per=per).item() == pytest.approx(rows)
    norms: dict[GradientNorm, float] = {"token_sum": positions, "frobenius": frobenius}
    for norm, expected in norms.items():
        found = micro_batch_norm(losses, embeds, norm=norm)
        if per == "example":
            (gradient,) = torch.autograd.grad(losses.sum(), embeds, retain_graph=True)
            found = gradient_norms(gradient, norm=norm)
        assert found.item() == pytest.approx(expected, abs=1e-6)


def test_token_that_cancels_itself_separates_table_from_sequence():
    # oracle E8: z = w . (e_0 - e_0) with the same token twice
    table = nn.Parameter(torch.zeros(5, 2, dtype=torch.float64))
    embeds = table[torch.tensor([[0, 0]])]
    losses = F.softplus((embeds[:, 0] - embeds[:, 1]) @ torch.tensor([3.0, 4.0], dtype=torch.float64))
    assert table_norms(losses, table, norm="token_sum", per="example").item() == 0
    assert micro_batch_norm(losses, embeds, norm="token_sum").item() == pytest.approx(5.0)


def test_zero_gradient_has_a_finite_derivative():
    gradient = torch.zeros(1, 2, 3, requires_grad=True)
    for norm in ("frobenius", "token_sum"):
        (derivative,) = torch.autograd.grad(gradient_norms(gradient, norm=norm).sum(), gradient)
        assert not derivative.any()


@pytest.mark.parametrize("norm", ["frobenius", "token_sum"])
@pytest.mark.parametrize("wrt", ["sequence", "table"])
def test_penalty_per_example_is_the_mean_over_batches_of_one(wrt, norm, tiny_hf):
    objective = igr(tiny_hf.double(), wrt=wrt, norm=norm)
    batch = planted_batch()
    together = objective.losses(batch)["igr"]
    alone = [objective.losses(batch[row : row + 1])["igr"] for row in range(len(batch))]
    assert torch.allclose(together, torch.stack(alone).mean(), rtol=1e-9)


def test_micro_batch_penalty_is_the_norm_of_the_mean_losss_gradient(tiny_hf):
    batch = planted_batch()
    losses = igr(tiny_hf, wrt="table", per="micro_batch", norm="token_sum").losses(batch)
    loss = example_losses(tiny_hf(batch.inputs).logits, batch.labels).mean()
    (gradient,) = torch.autograd.grad(loss, tiny_hf.embedding_matrix)
    assert losses["igr"].item() == pytest.approx(gradient.norm(dim=1).sum().item(), rel=1e-4)


@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
@pytest.mark.parametrize("embedding", ["word", "module"])
@pytest.mark.parametrize("wrt", ["sequence", "table"])
def test_penalty_alone_reaches_the_encoders_weights(kind, embedding, wrt):
    network = tiny_classifier(kind, embedding=embedding)
    batch = planted_batch(num_classes=network.num_classes, multilabel=network.multilabel)
    penalty = igr(network, wrt=wrt).losses(batch)["igr"]
    weight = next(p for name, p in network.named_parameters() if "layer.0.attention.self.query.weight" in name)
    assert torch.autograd.grad(penalty, weight)[0].abs().max() > 0


@pytest.mark.slow
def test_training_leaves_smaller_input_gradients_than_supervised_training(tmp_path):
    batch = planted_batch(99)

    def trained_penalty(objective):
        quiet_trainer(tmp_path, max_epochs=5).fit(objective, loader(4))
        network = objective.network.eval()
        return igr(network).losses(batch)["igr"].item()

    arguments: dict[str, Any] = {"optimizer": fast_optimizer, "warmup_fraction": 0.0}
    plain = trained_penalty(Supervised(tiny_classifier("bert"), **arguments))
    assert trained_penalty(igr(tiny_classifier("bert"), weight=1.0, **arguments)) < 0.5 * plain


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_penalty_in_half_precision_is_near_the_one_in_float32(dtype, tiny_hf):
    objective, batch = igr(tiny_hf), planted_batch()
    expected = objective.losses(batch)["igr"].item()
    with torch.autocast("cpu", dtype):
        assert objective.losses(batch)["igr"].item() == pytest.approx(expected, rel=0.05)


def test_frozen_embeddings_still_have_an_input_gradient(tiny_hf):
    tiny_hf.embedding_matrix.requires_grad_(False)
    assert igr(tiny_hf).losses(planted_batch())["igr"] > 0


def test_attention_is_eager_before_the_first_step(tiny_hf):
    tiny_hf.set_attention("sdpa")
    igr(tiny_hf)
    assert tiny_hf.attention_implementation == "eager"


def test_frozen_table_is_refused_for_the_tables_gradient(tiny_hf):
    tiny_hf.embedding_matrix.requires_grad_(False)
    with pytest.raises(ValueError, match="the embedding table is frozen"):
        igr(tiny_hf, wrt="table")


@pytest.mark.slow
def test_compiled_network_is_refused(tiny_hf):
    with pytest.raises(ValueError, match="do not compile the network"):
        igr(cast(Classifier, torch.compile(tiny_hf)))


def test_compiled_objective_is_refused(tiny_hf, tmp_path):
    with pytest.raises(ValueError, match="do not compile the objective"):
        compiled = cast(LightningModule, torch.compile(igr(tiny_hf)))
        quiet_trainer(tmp_path, max_epochs=1).fit(compiled, loader(1))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_activations_must_not_be_reentrant(reentrant, tiny_hf, tmp_path):
    tiny_hf.transformer.gradient_checkpointing_enable({"use_reentrant": reentrant})
    trainer, objective = quiet_trainer(tmp_path, max_epochs=1), igr(tiny_hf)
    if reentrant:
        with pytest.raises(ValueError, match="use_reentrant=False"):
            trainer.fit(objective, loader(1))
    else:
        trainer.fit(objective, loader(1))


@pytest.mark.slow
def test_gradients_of_two_processes_are_those_of_one(tmp_path):
    script = Path(__file__).parents[1].joinpath("two_processes.py")
    with socket.create_server(("127.0.0.1", 0)) as server:  # a free port
        port = server.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, str(script), str(tmp_path), str(rank), str(port)]) for rank in range(2)]
    try:
        assert [process.wait(timeout=300) for process in ranks] == [0, 0]
    finally:
        for process in ranks:
            process.kill()
    for objective in STEPS:
        one, two = (torch.load(tmp_path / f"{objective}_{processes}.pt") for processes in ("one", "two"))
        assert one.keys() == two.keys() and one
        assert all(torch.allclose(one[name], two[name], atol=1e-10) for name in one), objective


def test_parameter_norm_adds_the_norm_of_all_trainable_weights(tiny_hf):
    batch = planted_batch()
    tiny_hf.embedding_matrix.requires_grad_(False)
    norm = torch.cat([p.flatten() for p in tiny_hf.parameters() if p.requires_grad]).norm()
    with_norm, without = (igr(tiny_hf, parameter_norm=flag).losses(batch)["igr"] for flag in (True, False))
    assert (with_norm - without).item() == pytest.approx(norm.item(), rel=1e-5)


def test_parameter_norm_is_the_same_in_validation_where_weights_are_frozen(tiny_hf, tmp_path):
    logged = []
    for flag in (True, False):
        trainer = quiet_trainer(tmp_path)
        trainer.validate(igr(tiny_hf, parameter_norm=flag, validate=True), loader(1), verbose=False)
        logged.append(trainer.callback_metrics["val/igr"].item())
    norm = torch.cat([p.detach().flatten() for p in tiny_hf.parameters()]).norm()
    assert logged[0] - logged[1] == pytest.approx(norm.item(), rel=1e-5)


def test_the_tables_gradient_is_refused_in_validation(tiny_hf):
    with pytest.raises(ValueError, match="computed in validation, where weights have no gradient"):
        igr(tiny_hf, wrt="table", validate=True)
