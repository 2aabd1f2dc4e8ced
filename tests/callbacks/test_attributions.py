import inspect
from pathlib import Path

import pytest
import torch
import yaml
from lightning import Callback

from lightning_xai.attributions.at_layer import AtLayer
from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.random import Random
from lightning_xai.callbacks.base import ExplainedBatch
from tests.attributions.test_attribution_contracts import CLASSES
from tests.callbacks.conftest import Constant, Recorder, compute, planted_data, trainer


class Plain(Callback):
    """A callback of another package: it only defines `on_explained`, and notes its calls in a shared list."""

    def __init__(self, name: str, calls: list) -> None:
        self.name = name
        self.calls = calls

    def on_explained(self, explained: ExplainedBatch) -> None:
        self.calls.append((self.name, explained))


def recorded(folder, objective, stage="test", *, methods=None, data=None, **arguments) -> dict:
    recorder = Recorder()
    methods = methods or [
        Random(),
        InputXGradient(),
        AttInGrad(),
        IntegratedGradients(num_steps=3, delta_tolerance=None),
    ]
    run = trainer(folder, compute(*methods, targets="gold"), recorder, **arguments)
    getattr(run, stage)(objective, datamodule=data or planted_data(), **({"verbose": False} if stage == "test" else {}))
    return recorder.scores


@pytest.mark.parametrize(("stage", "splits"), [
    ("validate", {"validation"}), ("test", {"validation", "test"}), ("predict", {"test"}),
])  # fmt: skip
def test_every_example_is_explained_under_the_trainers_defaults(objective, tmp_path, stage, splits):
    scores = recorded(tmp_path, objective, stage)
    assert {key[0] for key in scores} == splits
    sizes = {"validation": 6, "test": 7}
    assert len(scores) == 4 * sum(sizes[split] for split in splits)


@pytest.mark.slow
def test_scores_are_the_same_for_batches_of_one_and_of_all(objective, tmp_path):
    one = recorded(tmp_path, objective, data=planted_data(eval_batch_size=1))
    many = recorded(tmp_path, objective, data=planted_data(eval_batch_size=32))
    assert one.keys() == many.keys()
    for key, scores in one.items():
        assert torch.allclose(scores, many[key], rtol=1e-3, atol=1e-5), key


def test_scores_are_in_float32_under_mixed_precision(objective, tmp_path):
    mixed, full = (recorded(tmp_path, objective, precision=precision) for precision in ("bf16-mixed", "32-true"))
    assert mixed.keys() == full.keys()
    for key, scores in mixed.items():
        assert scores.dtype == torch.float32
        assert torch.allclose(scores, full[key], rtol=1e-4, atol=1e-6), key


def test_explaining_draws_nothing_from_the_random_state(objective, tmp_path):
    states = []
    for callbacks in ([], [compute(Random(), AttInGrad())]):
        torch.manual_seed(0)
        trainer(tmp_path, *callbacks).test(objective, datamodule=planted_data(), verbose=False)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_network_is_left_as_it_was(objective, tmp_path):
    network = objective.network
    network.embedding_matrix.requires_grad_(False)
    network.transformer.dropout.train()
    before = (
        {name: value.clone() for name, value in network.state_dict().items()},
        [parameter.requires_grad for parameter in network.parameters()],
        network.attention_implementation,
    )
    recorded(tmp_path, objective)
    assert all(torch.equal(value, before[0][name]) for name, value in network.state_dict().items())
    assert [parameter.requires_grad for parameter in network.parameters()] == before[1]
    assert network.attention_implementation == before[2]
    assert network.transformer.dropout.training
    assert all(parameter.grad is None for parameter in network.parameters())


def test_two_instances_restore_the_attention_kernel(objective, tmp_path):
    objective.network.set_attention("sdpa")
    callbacks = [compute(Attention()), compute(AttInGrad(), targets="predicted")]
    trainer(tmp_path, *callbacks).test(objective, datamodule=planted_data(), verbose=False)
    assert objective.network.attention_implementation == "sdpa"


def test_scores_that_are_not_finite_name_their_example(objective, tmp_path):
    with pytest.raises(ValueError, match=r"Constant gave non-finite scores for the examples with indices \[3\]"):
        recorded(tmp_path, objective, methods=[Constant(broken=3)])


def test_only_the_first_examples_are_explained_on_request(objective, tmp_path):
    recorder = Recorder()
    run = trainer(tmp_path, compute(Random(), targets="gold", max_examples=3), recorder)
    run.test(objective, datamodule=planted_data(eval_batch_size=2), verbose=False)
    assert sorted(key[2] for key in recorder.scores if key[0] == "test") == [0, 1, 2]


def test_nothing_is_explained_while_fitting(objective, tmp_path):
    recorder = Recorder()
    run = trainer(tmp_path, compute(Random()), recorder, max_epochs=1, enable_checkpointing=False)
    run.fit(objective, datamodule=planted_data())
    assert recorder.scores == {}


def calls_of(folder, objective, *callbacks, stage="test", **arguments) -> None:
    run = trainer(folder, *callbacks, **arguments)
    getattr(run, stage)(objective, datamodule=planted_data(eval_batch_size=3, tune_on_validation=False))


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_plain_callback_gets_every_batch(objective, tmp_path, stage):
    calls: list = []
    calls_of(tmp_path, objective, compute(Random(), AttInGrad()), Plain("plain", calls), stage=stage)
    split, size = ("validation", 6) if stage == "validate" else ("test", 7)
    assert {explained.split for _, explained in calls} == {split}
    assert sorted(i for _, explained in calls for i in explained.batch.index.tolist()) == list(range(size))
    assert all(list(explained.attributions) == ["Random", "AttInGrad"] for _, explained in calls)


def test_predictions_handed_on_are_those_of_the_network(objective, tmp_path):
    calls: list = []
    calls_of(tmp_path, objective, compute(Random()), Plain("plain", calls))
    for _, explained in calls:
        inputs = explained.batch.inputs
        assert torch.equal(explained.predict(inputs), objective.network.predict(inputs))
        assert explained.predict.pad_id == objective.network.pad_id


def test_callbacks_are_called_in_the_order_of_the_list(objective, tmp_path):
    calls: list = []
    calls_of(tmp_path, objective, compute(Random()), *(Plain(name, calls) for name in "cab"))
    assert "".join(name for name, _ in calls) == "cab" * 3  # three batches


def test_second_instance_starts_a_new_group(objective, tmp_path):
    calls: list = []
    first, second = Plain("first", calls), Plain("second", calls)
    calls_of(tmp_path, objective, compute(Random()), first, compute(InputXGradient()), second)
    groups = {(name, *explained.attributions) for name, explained in calls}
    assert groups == {("first", "Random"), ("second", "InputXGradient")}


def test_callback_before_the_first_instance_gets_nothing(objective, tmp_path):
    calls: list = []
    calls_of(tmp_path, objective, Plain("before", calls), compute(Random()))
    assert calls == []


def test_outputs_of_the_step_are_left_alone(objective, tmp_path):
    class Outputs(Callback):
        def on_test_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0):
            calls.append(sorted(outputs))

    calls: list = []
    calls_of(tmp_path, objective, compute(Random()), Outputs())
    assert calls == [["logits", "probs"]] * 3


def test_batch_without_an_explained_example_is_not_handed_on(objective, tmp_path):
    calls: list = []
    calls_of(tmp_path, objective, compute(Random(), max_examples=1), Plain("plain", calls))
    assert [explained.batch.index.tolist() for _, explained in calls] == [[0]]


def test_validation_of_a_fit_is_explained_on_request(objective, tmp_path):
    calls: list = []
    fit = {"stage": "fit", "max_epochs": 1, "enable_checkpointing": False}
    calls_of(tmp_path, objective, compute(Random(), during_fit=True), Plain("plain", calls), **fit)
    assert sorted(i for _, explained in calls for i in explained.batch.index.tolist()) == list(range(6))


def test_every_layer_of_the_network_is_explained_on_request(objective, tmp_path):
    callback = compute(AtLayer(Attention(), "all"), targets="gold")
    for _ in range(2):  # the second test finds the layers named by the first one
        recorder = Recorder()
        trainer(tmp_path, callback, recorder).test(objective, datamodule=planted_data(), verbose=False)
        assert {key[1] for key in recorder.scores} == {"AtLayer_layer0", "AtLayer_layer1"}


def test_methods_are_needed():
    with pytest.raises(ValueError, match="methods is empty"):
        compute()


def test_every_method_has_a_measured_cost(memory_is_measured, objective, tmp_path):
    callback = compute(Random(), IntegratedGradients(num_steps=3, delta_tolerance=None), targets="gold")
    trainer(tmp_path, callback).test(objective, datamodule=planted_data(), verbose=False)
    for cost in callback.costs.values():
        per_example = cost.per_example("test")
        assert per_example["seconds"] > 0 and per_example["peak_memory_mb"] >= 0


CAPTUM = "lightning_xai.attributions.captum.Captum"


def test_the_bundle_of_all_methods_leaves_out_those_only_that_need_an_argument():
    path = Path(__file__).parents[2] / "configs" / "methods" / "all.yaml"
    listed = [method["class_path"] for method in yaml.safe_load(path.read_text())["init_args"]["methods"].values()]
    complete = [
        f"{cls.__module__}.{cls.__name__}"
        for cls in CLASSES
        if all(p.default is not p.empty for p in inspect.signature(cls).parameters.values())
    ]
    assert sorted(set(listed) - {CAPTUM}) == sorted(complete)  # algorithms of captum are named one by one
