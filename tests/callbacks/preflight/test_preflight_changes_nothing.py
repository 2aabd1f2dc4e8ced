"""The preflight leaves the network, the random states, the results and the costs as they were without it."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from lightning import Callback

from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.lime import LIME
from lightning_xai.attributions.random import Random
from lightning_xai.attributions.transformed import Transformed
from lightning_xai.callbacks.preflight.preflight import Preflight
from lightning_xai.callbacks.results import ResultsFile
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.runs.facts import RunFacts
from tests.callbacks.conftest import Recorder, compute, evaluation, planted_data
from tests.callbacks.preflight.test_preflight import Broken, silent
from tests.conftest import tiny_classifier


class Meddling(Broken):
    """Leaves a hook, a gradient, a flag, a mode and a buffer behind."""

    def scores(self, model, inputs, targets):
        model.register_forward_hook(lambda *_: None)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        for buffer in model.buffers():
            buffer.add_(1)
        model.train()
        self.seen = True
        return super().scores(model, inputs, targets)


class Watch(Callback):
    """Notes what a preflight must leave as it was, at the first of two hooks or at the last one."""

    def __init__(self, hook: str) -> None:
        setattr(self, hook, self.note)

    def note(self, trainer, module):
        network = module.network
        self.state = {
            "hooks": [len(part._forward_hooks) for part in module.modules()],
            "gradients": [parameter.grad is None for parameter in module.parameters()],
            "flags": [parameter.requires_grad for parameter in module.parameters()],
            "modes": [part.training for part in module.modules()],
            "buffers": [buffer.tolist() for buffer in module.buffers()],
            "attention": network.attention_implementation,
            "log": sorted(vars(module)),
            "logged": dict(trainer.callback_metrics),
        }


@pytest.mark.parametrize("method", [Meddling(), Meddling(ValueError("no")), AttInGrad()], ids=["ok", "fails", "eager"])
def test_preflight_leaves_the_network_as_it_was(objective, tmp_path, method):
    objective.network.set_attention("sdpa")
    before, after = Watch("on_fit_start"), Watch("on_train_start")
    preflight = Preflight(tests_after_fit=True, skip_unfit=True)
    run = silent(tmp_path, before, preflight, after, compute(method, Random()), evaluation(), limit_train_batches=1)
    run.fit(objective, datamodule=planted_data())
    assert before.state["attention"] == "sdpa" and not preflight.left_out.keys() - {"method Meddling (Meddling)"}
    assert after.state == before.state


def states_after(folder, *callbacks: Callback, **arguments) -> dict[str, Any]:
    """Returns everything that a preflight must not change, after a fit and its test."""
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    objective = Supervised(tiny_classifier("bert", dropout=0.1))
    objective.network.set_attention("sdpa")
    source = compute(Random(), AttInGrad(), LIME(), targets="gold", during_fit=True)
    results = ResultsFile(RunFacts("tm", seed=0))
    run = silent(folder, results, *callbacks, source, evaluation(during_fit=True), **arguments)
    run.fit(objective, datamodule=planted_data(batch_size=3))
    run.test(objective, datamodule=planted_data(batch_size=3), verbose=False)
    assert results.table is not None
    costs = ["seconds", "peak_memory_mb"]
    return {
        "table": results.table.drop(columns=costs).to_csv(),
        "weights": objective.state_dict(),
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state()[1].tolist(),  # type: ignore[index]
        "python": random.getstate(),
        "attention": objective.network.attention_implementation,
        "flags": [(p.requires_grad, p.grad is None) for p in objective.parameters()],
        "modes": [part.training for part in objective.modules()],
        "hooks": [
            (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks)) for m in objective.modules()
        ],
        "costs": {
            name: cost.per_example("test") | {"seconds": 0, "peak_memory_mb": 0} for name, cost in source.costs.items()
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_results_weights_and_random_states_are_as_without_a_preflight(tmp_path, precision):
    method = Broken()
    with_preflight = states_after(
        tmp_path / "a", Preflight(tests_after_fit=True), compute(method), Recorder(), precision=precision
    )
    without = states_after(tmp_path / "b", compute(Broken()), Recorder(), precision=precision)
    tensors = with_preflight.pop("weights"), without.pop("weights")
    assert all(torch.equal(value, tensors[1][name]) for name, value in tensors[0].items())
    assert torch.equal(with_preflight.pop("torch"), without.pop("torch"))
    assert with_preflight == without


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_method_that_warns_once_warns_in_the_run_and_not_in_the_preflight(objective, tmp_path, wrapped):
    method = IntegratedGradients(num_steps=2, delta_tolerance=1e-9)
    source = compute(Transformed(method, ["absolute"]) if wrapped else method)
    run = silent(tmp_path, Preflight(), source, Recorder())
    with pytest.warns(UserWarning, match="integrated gradients violate completeness"):
        run.test(objective, datamodule=planted_data(), verbose=False)
