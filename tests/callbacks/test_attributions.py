import inspect
import math
import mmap
from pathlib import Path

import pytest
import torch
import yaml

from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.random import Random
from lightning_xai.callbacks.attributions import Cost, resident_memory, start_peak_memory
from tests.attributions.test_attribution_contracts import CLASSES
from tests.callbacks.conftest import Constant, Recorder, compute, planted_data, trainer


def recorded(folder, objective, stage="test", *, methods=None, data=None, **arguments) -> dict:
    recorder = Recorder()
    methods = methods or [Random(), InputXGradient(), AttInGrad(), IntegratedGradients(num_steps=3)]
    run = trainer(folder, compute(*methods, targets="gold"), recorder, **arguments)
    getattr(run, stage)(objective, datamodule=data or planted_data(), **({"verbose": False} if stage == "test" else {}))
    return recorder.scores


@pytest.mark.parametrize(("stage", "splits"), [
    ("validate", {"validation"}), ("test", {"validation", "test"}), ("predict", {"predict"}),
])  # fmt: skip
def test_every_example_is_explained_under_the_trainers_defaults(objective, tmp_path, stage, splits):
    found = recorded(tmp_path, objective, stage)
    assert {key[0] for key in found} == splits
    sizes = {"validation": 6, "test": 7, "predict": 7}
    assert len(found) == 4 * sum(sizes[split] for split in splits)


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
    with pytest.raises(ValueError, match=r"Constant gave non-finite scores for examples \[3\]"):
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


def test_methods_are_needed():
    with pytest.raises(ValueError, match="methods is empty"):
        compute()


def peak_of(megabytes: int) -> float:
    peak = start_peak_memory(torch.device("cpu"))
    if megabytes:
        with mmap.mmap(-1, megabytes * 2**20) as pages:  # fresh pages, not what earlier tests freed into the heap
            for start in range(0, len(pages), mmap.PAGESIZE):
                pages[start] = 1
    return peak()


@pytest.fixture
def counted():
    if math.isnan(peak_of(0)):
        pytest.skip("this system does not tell the peak of a process's memory, or forbids its reset")


def test_peak_memory_on_the_cpu_is_what_was_taken_and_freed(counted):
    assert 60 < peak_of(64) < 80


def test_peak_memory_starts_again_for_every_method(counted):
    peak_of(256)
    assert peak_of(64) < 80


def test_a_device_without_a_counter_has_no_peak_memory():
    assert math.isnan(start_peak_memory(torch.device("meta"))())


def test_memory_now_is_at_most_its_peak(counted):
    now, peak = resident_memory()
    assert 0 < now < peak + 4


def test_every_method_has_a_measured_cost(counted, objective, tmp_path):
    callback = compute(Random(), IntegratedGradients(num_steps=3), targets="gold")
    trainer(tmp_path, callback).test(objective, datamodule=planted_data(), verbose=False)
    for cost in callback.costs.values():
        found = cost.per_example()
        assert found["seconds"] > 0 and found["peak_memory_mb"] >= 0


def test_an_example_has_the_mean_of_passes_and_seconds_and_the_largest_memory():
    cost = Cost()
    cost.add(1, forward=4, backward=2, seconds=0.5, peak_memory_mb=10)
    cost.add(3, forward=0, backward=2, seconds=1.5, peak_memory_mb=7)
    cost.add(0, forward=0, backward=0, seconds=0, peak_memory_mb=math.nan)  # a batch that nothing counted
    cost.add(0, forward=0, backward=0, seconds=0, peak_memory_mb=2)
    assert list(cost.per_example().values()) == [1, 1, 0.5, 10]


def test_the_bundle_of_all_methods_leaves_out_those_only_that_need_an_argument():
    path = Path(__file__).parents[2] / "configs" / "methods" / "all.yaml"
    listed = [method["class_path"] for method in yaml.safe_load(path.read_text())["init_args"]["methods"].values()]
    complete = [
        f"{cls.__module__}.{cls.__name__}"
        for cls in CLASSES
        if all(p.default is not p.empty for p in inspect.signature(cls).parameters.values())
    ]
    assert sorted(listed) == sorted(complete)
