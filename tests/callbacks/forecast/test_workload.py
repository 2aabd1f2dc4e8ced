import numpy as np
import pytest
from lightning import Trainer

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.kernel_shap import KernelSHAP
from lightning_xai.attributions.lime import LIME
from lightning_xai.attributions.occlusion import Occlusion
from lightning_xai.attributions.random import Random
from lightning_xai.attributions.transformed import Transformed
from lightning_xai.callbacks.evaluation import AttributionEvaluation
from lightning_xai.callbacks.forecast.workload import SMALLEST, Workload, workload_of
from lightning_xai.metrics.complexity import Entropy
from lightning_xai.metrics.discrete_rationale import DiscreteRationale
from lightning_xai.metrics.faithfulness import Comprehensiveness
from lightning_xai.metrics.normalized_aopc import NormalizedAOPC, OrderSearch
from lightning_xai.metrics.top_units import Counts, Percentages
from tests.callbacks.conftest import compute, planted_data
from tests.conftest import tiny_classifier


def test_each_part_keeps_its_own_speed():
    passes = {"cheap": 1.0, "costly": 1.0}
    work = Workload({"test": 10}, {"test": 100}, {"test": passes})
    work.finish("test", "cheap", num_tokens=50, seconds=5)
    assert work.seconds_left() == pytest.approx(5 + 10)  # the costly part counts as fast as the cheap one
    work.finish("test", "costly", num_tokens=50, seconds=500)
    assert work.seconds_left() == pytest.approx(5 + 500)
    work.finish("test", "costly", num_tokens=60, seconds=600)  # padding of a distributed sampler repeats examples
    assert work.seconds_left() == pytest.approx(5)


def test_splits_share_the_speed_of_a_part():
    work = Workload({"a": 1, "b": 1}, {"a": 10, "b": 30}, {"a": {"m": 2.0}, "b": {"m": 2.0}})
    work.finish("a", "m", num_tokens=10, seconds=4)
    assert work.seconds_left() == pytest.approx(12)


@pytest.mark.parametrize(
    ("metric", "passes"),
    [
        (Entropy(), 0),
        (DiscreteRationale(), 0),
        (Comprehensiveness(Percentages([10, 50])), 2 * 3),
        (Comprehensiveness(Counts(list(range(1, 100)))), 8 * 3),  # a text of 8 units has no more
        (Comprehensiveness(Percentages([1, 2, 3], rounding="floor")), 1 * 3),  # equal sizes are predicted once
        (NormalizedAOPC(search=OrderSearch(beam_size=2)), 3 * 8 + 2 * 8**2),
        (NormalizedAOPC(search=OrderSearch(max_units=7)), 0),
    ],
)
def test_metrics_count_their_passes_for_all_methods(metric, passes):
    assert metric.passes(num_units=8, num_methods=3) == passes


def planted_work(source, preset, folder, network=None):
    trainer = Trainer(accelerator="cpu", logger=False, callbacks=[source, preset], default_root_dir=folder)
    setattr(trainer, "datamodule", planted_data())  # noqa: B010 - Lightning does not declare the attribute
    work = workload_of(trainer, source, ["test"], network)
    assert work is not None
    return work


def test_shared_segments_make_fewer_passes(tmp_path):
    network = tiny_classifier("plm_ca", segment_length=2)
    source = compute(Gradient(), Occlusion(), LIME(), Transformed(KernelSHAP(), ["absolute"]))
    preset = AttributionEvaluation("preset", [Comprehensiveness(Counts([1, 2, 3]), erasure="mask")])
    whole = planted_work(source, preset, tmp_path)
    shared = planted_work(source, preset, tmp_path, network)
    assert whole.segments == {}
    num_segments = shared.segments_of_text
    assert num_segments > 2 and 0.8 < shared.segments["Occlusion"] < 1  # one version is the text itself
    assert shared.segments["preset/comprehensiveness"] == pytest.approx(1, abs=0.1)
    passes = shared.passes["test"]
    versions_without_one = whole.passes["test"]["Occlusion"] - 1
    assert passes["Occlusion"] == pytest.approx(1 + versions_without_one / num_segments)
    assert passes["preset/comprehensiveness"] < whole.passes["test"]["preset/comprehensiveness"]
    assert passes["Gradient"] == whole.passes["test"]["Gradient"]
    assert set(shared.segments) == {"Occlusion", "LIME", "Transformed", "preset/comprehensiveness"}


def test_work_counts_limits_methods_and_metrics(tmp_path):
    source = compute(Random(), Gradient(), IntegratedGradients(num_steps=4, delta_tolerance=None), max_examples=4)
    sizes = Comprehensiveness(Percentages([10, 50]))
    preset = AttributionEvaluation("preset", [sizes, DiscreteRationale(name="rationale")], max_examples=2)
    trainer = Trainer(accelerator="cpu", logger=False, callbacks=[source, preset], default_root_dir=tmp_path)
    data = planted_data()
    setattr(trainer, "datamodule", data)  # noqa: B010 - Lightning does not declare the attribute
    work = workload_of(trainer, source, ["validation", "test"])
    assert work is not None
    assert work.num_examples == {"validation": 4, "test": 4}
    assert set(work.passes["validation"]) == {"Random", "Gradient", "IntegratedGradients", "preset/rationale"}
    passes = work.passes["test"]
    assert passes["Random"] == SMALLEST and passes["Gradient"] == 3
    forward, backward = source.methods["IntegratedGradients"].passes(10, 1)
    assert passes["IntegratedGradients"] == forward + 2 * backward
    assert passes["preset/comprehensiveness"] == 2 * 3 * 0.5  # two sizes, three methods, half of the examples
    tokens = data.split("test").lengths[:4].sum()
    alone = Workload({"test": 4}, {"test": tokens}, {"test": {"Gradient": 3.0}})
    assert alone.seconds_left(0.1) == pytest.approx(0.1 * 3 * tokens)


def test_a_prediction_measures_nothing(tmp_path):
    source, preset = compute(Gradient()), AttributionEvaluation("preset", [Comprehensiveness(Counts([1]))])
    trainer = Trainer(accelerator="cpu", logger=False, callbacks=[source, preset], default_root_dir=tmp_path)
    data = planted_data()
    setattr(trainer, "datamodule", data)  # noqa: B010 - Lightning does not declare the attribute
    trainer.predicting = True
    work = workload_of(trainer, source, ["test"])
    assert work is not None and set(work.passes["test"]) == {"Gradient"}


@pytest.mark.parametrize(("limit", "expected"), [(1.0, 7), (2, 4), (0.5, 4), (9, 7), (0, None)])
def test_limit_on_batches_limits_the_work(limit, expected, tmp_path):
    source, data = compute(Gradient()), planted_data(eval_batch_size=2)  # 7 test examples
    options = {"logger": False, "enable_progress_bar": False, "limit_test_batches": limit}
    trainer = Trainer(accelerator="cpu", default_root_dir=tmp_path, callbacks=[source], **options)
    data.setup("test")
    setattr(trainer, "datamodule", data)  # noqa: B010 - Lightning does not declare the attribute
    workload = workload_of(trainer, source, ["test"])
    assert (workload and workload.num_examples["test"]) == expected


def test_only_the_first_examples_in_the_batches_that_a_limit_leaves_are_counted(tmp_path):
    source, data = compute(Gradient(), max_examples=3), planted_data(eval_batch_size=2)
    trainer = Trainer(
        accelerator="cpu", logger=False, callbacks=[source], default_root_dir=tmp_path, limit_test_batches=1
    )
    data.setup("test")
    setattr(trainer, "datamodule", data)  # noqa: B010 - Lightning does not declare the attribute
    longest = np.argsort(-data.split("test").lengths, kind="stable")[:2]
    workload = workload_of(trainer, source, ["test"])
    assert (workload.num_examples["test"] if workload else 0) == sum(row < 3 for row in longest) < 2
