"""Laws of every metric: of each class with default arguments, and of each metric of the presets."""

import importlib
import inspect
import json
import math
import pkgutil
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed
import torch.multiprocessing
import yaml
from jsonargparse import ArgumentParser

import lightning_xai.metrics
from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.metrics.classification import ClassificationMetrics
from lightning_xai.metrics.complexity import SpecialTokenShare
from lightning_xai.metrics.top_units import Percentages
from lightning_xai.types import Attribution
from tests.metrics.conftest import NUM_CLASSES, bag_of_words, explained_batch, rationale_of

PRESETS = sorted((Path(__file__).parents[2] / "configs" / "presets").glob("*.yaml"))
LENGTHS = [9, 14, 6, 11, 3, 8, 17]


def concrete_metrics():
    for module in pkgutil.iter_modules(lightning_xai.metrics.__path__):
        importlib.import_module(f"lightning_xai.metrics.{module.name}")
    concrete, queue = [], [AttributionMetric]
    while queue:
        kind = queue.pop()
        queue += kind.__subclasses__()
        if not inspect.isabstract(kind) and kind.__module__.startswith("lightning_xai.metrics"):
            concrete.append(kind)
    return sorted(set(concrete), key=lambda kind: kind.__name__)


def configured(entry):
    """Returns the metric of a YAML entry, made as the command line makes it."""
    parser = ArgumentParser()
    parser.add_subclass_arguments(AttributionMetric, "metric")
    return parser.instantiate(parser.parse_object({"metric": entry})).metric


def preset_makers(preset):
    """Returns makers of the metrics of a preset by name."""
    makers = {}
    for entry in yaml.safe_load(preset.read_text())["init_args"]["metrics"]:
        name = entry.get("init_args", {}).get("name", entry["class_path"].rsplit(".", 1)[-1])
        makers[f"{preset.stem}-{name}"] = partial(configured, entry)
    return makers


def definitions():
    """Returns makers of metrics by name."""
    makers = {}
    for kind in concrete_metrics():
        parameters = {name for parent in kind.__mro__ for name in inspect.signature(parent.__init__).parameters}
        arguments = {"sizes": Percentages([20, 50])} if "sizes" in parameters else {}
        makers[kind.__name__] = partial(kind, **arguments)
    for preset in PRESETS:
        makers |= preset_makers(preset)
    return makers


DEFINITIONS = definitions()
every_metric = pytest.mark.parametrize("name", list(DEFINITIONS))


def values_of(name, batches):
    metric, validation = DEFINITIONS[name](), DEFINITIONS[name]()
    for attribution, batch in batches:
        metric.update(attribution, batch, bag_of_words)
    if metric.needs_tuning:
        validation.update(*explained_batch([12, 15], seed=9), bag_of_words)
        metric.tune_from(validation)
    return {key: float(value) for key, value in metric.compute().items()}


def same(values):
    return pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True)


def test_presets_may_name_a_metric_without_arguments(tmp_path):
    preset = tmp_path / "mine.yaml"
    preset.write_text("init_args: {metrics: [{class_path: lightning_xai.metrics.complexity.Entropy}]}")
    assert preset_makers(preset)["mine-Entropy"]().name == "entropy"


@every_metric
def test_one_batch_equals_batches_of_one(name):
    attribution, batch = explained_batch(LENGTHS)
    singles = [(attribution[[row]], batch[[row]]) for row in range(len(LENGTHS))]
    assert values_of(name, singles) == same(values_of(name, [(attribution, batch)]))


@every_metric
def test_padding_changes_nothing(name):
    assert values_of(name, [explained_batch(LENGTHS, pad_to=30)]) == same(values_of(name, [explained_batch(LENGTHS)]))


@every_metric
def test_repeated_examples_count_once(name):
    attribution, batch = explained_batch(LENGTHS)
    again = [(attribution, batch), (attribution[:3], batch[:3])]
    assert values_of(name, again) == same(values_of(name, [(attribution, batch)]))


@every_metric
def test_order_of_examples_changes_nothing(name):
    attribution, batch = explained_batch(LENGTHS)
    order = list(range(len(LENGTHS)))[::-1]
    shuffled = [(attribution[order], batch[order])]
    assert values_of(name, shuffled) == same(values_of(name, [(attribution, batch)]))


@every_metric
def test_some_row_is_measured(name):
    values = values_of(name, [explained_batch(LENGTHS)])
    assert values["num_examples"] > 0
    assert any(key.split("/")[0] == DEFINITIONS[name]().name for key in values)


@every_metric
def test_reset_forgets_the_rows(name):
    metric = DEFINITIONS[name]()
    metric.update(*explained_batch(LENGTHS), bag_of_words)
    metric.reset()
    assert len(metric.table()[0]) == 0


@every_metric
def test_arguments_stay_as_they_were(name):
    attribution, batch = explained_batch(LENGTHS)
    copies = attribution.map(torch.clone), batch.map(torch.clone)
    DEFINITIONS[name]().update(attribution, batch, bag_of_words)
    values, unchanged = ((a, b.inputs, rationale_of(b)) for a, b in ((attribution, batch), copies))
    for value, copy in zip(values, unchanged, strict=True):
        for field in fields(value):
            tensor = getattr(value, field.name)
            assert tensor is None or torch.equal(tensor, getattr(copy, field.name))


@every_metric
def test_rows_outside_the_target_mask_do_not_count(name):
    attribution, batch = explained_batch(LENGTHS)
    spoiled = attribution.scores.clone()
    spoiled[~attribution.target_mask] = 77.0
    changed = replace(attribution, scores=spoiled)
    assert values_of(name, [(changed, batch)]) == same(values_of(name, [(attribution, batch)]))


@every_metric
def test_batches_without_a_row_to_measure_are_accepted(name):
    attribution, batch = explained_batch(LENGTHS)
    nothing = replace(attribution, target_mask=torch.zeros_like(attribution.target_mask))
    batches = [(nothing, batch), (attribution, batch)]
    assert values_of(name, batches) == same(values_of(name, [(attribution, batch)]))


@every_metric
def test_single_precision_and_single_labels_are_accepted(name):
    attribution, batch = explained_batch(LENGTHS)
    attribution = Attribution(
        attribution.scores.float(), attribution.targets, attribution.target_mask, attribution.token_mask
    )
    batch = replace(batch, labels=batch.labels.argmax(dim=1))
    metric = DEFINITIONS[name]()
    metric.update(attribution, batch, bag_of_words)
    assert metric.table()[1].dtype == torch.float64


def counts_of(values):
    """Returns the number of rows of every value."""
    return {key.removeprefix("num_examples/"): int(n) for key, n in values.items() if key.startswith("num_examples/")}


@every_metric
def test_every_value_has_its_number_of_rows(name):
    values = values_of(name, [explained_batch(LENGTHS)])
    counts = counts_of(values)
    assert counts.keys() == {key for key in values if not key.startswith("num_")}
    assert min(counts.values()) >= values["num_examples"]
    assert max(counts.values()) <= values["num_examples"] + values["num_skipped"]


@every_metric
def test_a_text_of_special_tokens_only_counts_for_no_value(name):
    attribution, batch = explained_batch([2, 9, 6])  # the first text is [CLS] [SEP]
    attribution.scores[0] = 1.0
    if isinstance(DEFINITIONS[name](), SpecialTokenShare):
        pytest.skip("special tokens are what this metric measures")
    alone = values_of(name, [(attribution[:1], batch[:1])])
    assert set(counts_of(alone).values()) == {0}
    constant = {key for key in alone if key.endswith("/threshold") or key.startswith("num_")}
    assert all(math.isnan(value) for key, value in alone.items() if key not in constant)
    rest = values_of(name, [(attribution[1:], batch[1:])])
    together = values_of(name, [(attribution, batch)])
    assert together.pop("num_skipped") >= rest.pop("num_skipped")
    assert together == same(rest)


@every_metric
def test_a_text_of_one_token_counts_for_the_values_that_it_has(name):
    attribution, batch = explained_batch([3])
    values = values_of(name, [(attribution, batch)])
    for key, number in counts_of(values).items():
        assert math.isnan(values[key]) or number or key.endswith("/threshold"), key


SHARDS = {"padded": [[0, 2, 4, 6], [1, 3, 5, 0]], "empty": [[0, 1, 2, 3, 4, 5, 6], []]}  # rows of each rank


def rank_values(rank, folder):
    """Measures every definition on this rank's rows and writes what this rank computes."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    attribution, batch = explained_batch(LENGTHS)
    probs = bag_of_words(batch.inputs)
    values_by_name = {}
    for shard, rows_of_ranks in SHARDS.items():
        rows = rows_of_ranks[rank]
        for name in DEFINITIONS:
            values_by_name[f"{shard} {name}"] = values_of(name, [(attribution[rows], batch[rows])] if rows else [])
        metric = ClassificationMetrics(NUM_CLASSES, multilabel=True)
        if rows:
            metric.update(probs[rows], batch.labels[rows], batch.index[rows])
        values_by_name[f"{shard} threshold"] = {"": metric.best_threshold()}
        values_by_name[f"{shard} classification"] = {key: float(value) for key, value in metric.compute().items()}
    (Path(folder) / f"rank{rank}.json").write_text(json.dumps(values_by_name))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*before the ``update``.*")
def test_two_processes_equal_one(tmp_path):
    attribution, batch = explained_batch(LENGTHS)
    torch.multiprocessing.spawn(rank_values, (str(tmp_path),), nprocs=2)
    metric = ClassificationMetrics(NUM_CLASSES, multilabel=True)
    metric.update(bag_of_words(batch.inputs), batch.labels, batch.index)
    expected = {name: values_of(name, [(attribution, batch)]) for name in DEFINITIONS}
    expected["threshold"] = {"": metric.best_threshold()}
    expected["classification"] = {key: float(value) for key, value in metric.compute().items()}
    for rank in range(2):
        values_by_name = json.loads((tmp_path / f"rank{rank}.json").read_text())
        for shard in SHARDS:
            for name, values in expected.items():
                assert values_by_name[f"{shard} {name}"] == same(values), (rank, shard, name)
