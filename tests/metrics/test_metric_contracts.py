"""Laws of every metric: of each class with default arguments, and of each metric of the presets."""

import copy
import importlib
import inspect
import json
import math
import pkgutil
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed
import torch.multiprocessing
import yaml
from jsonargparse import ArgumentParser

import lightning_xai.metrics
from lightning_xai.metrics import laws
from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.metrics.classification import ClassificationMetrics
from lightning_xai.metrics.complexity import SpecialTokenShare
from lightning_xai.metrics.reads_symbols import ReadsSymbols
from lightning_xai.metrics.top_units import Percentages
from tests.metrics.conftest import NUM_CLASSES, bag_of_words, explained_batch

PRESETS = sorted((Path(__file__).parents[2] / "configs" / "presets").glob("*.yaml"))
LENGTHS = laws.LENGTHS
SYMBOLS = torch.arange(100) % 3 == 0  # which token ids have no letter or digit


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
    """Returns a maker of the metric of a YAML entry, which is made as the command line makes it, and then copied."""
    parser = ArgumentParser()
    parser.add_subclass_arguments(AttributionMetric, "metric")
    metric = parser.instantiate(parser.parse_object({"metric": entry})).metric
    if isinstance(metric, ReadsSymbols):
        metric.take_symbols(SYMBOLS)
    return lambda: copy.deepcopy(metric)


def with_symbols(kind):
    metric = kind()
    metric.take_symbols(SYMBOLS)
    return metric


def preset_makers(preset):
    """Returns makers of the metrics of a preset by name."""
    makers = {}
    for entry in yaml.safe_load(preset.read_text())["init_args"]["metrics"]:
        name = entry.get("init_args", {}).get("name", entry["class_path"].rsplit(".", 1)[-1])
        makers[f"{preset.stem}-{name}"] = configured(entry)
    return makers


def definitions():
    """Returns makers of metrics by name."""
    makers = {}
    for kind in concrete_metrics():
        parameters = {name for parent in kind.__mro__ for name in inspect.signature(parent.__init__).parameters}
        arguments = {"sizes": Percentages([20, 50])} if "sizes" in parameters else {}
        reads_symbols = issubclass(kind, ReadsSymbols)
        makers[kind.__name__] = partial(with_symbols, kind) if reads_symbols else partial(kind, **arguments)
    for preset in PRESETS:
        makers |= preset_makers(preset)
    return makers


DEFINITIONS = definitions()
every_metric = pytest.mark.parametrize("name", list(DEFINITIONS))


def values_of(name, batches):
    return laws.values_of(DEFINITIONS[name], batches)


def same(values):
    return pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True)


def test_presets_may_name_a_metric_without_arguments(tmp_path):
    preset = tmp_path / "mine.yaml"
    preset.write_text("init_args: {metrics: [{class_path: lightning_xai.metrics.complexity.Entropy}]}")
    assert preset_makers(preset)["mine-Entropy"]().name == "entropy"


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
@every_metric  # in this order all laws of one metric follow each other, and share values
def test_law(law, name):
    law(DEFINITIONS[name])


@every_metric
def test_a_text_of_special_tokens_only_counts_for_no_value(name):
    attribution, batch = explained_batch([2, 9, 6])  # the first text is [CLS] [SEP]
    attribution.scores[0] = 1.0
    if isinstance(DEFINITIONS[name](), SpecialTokenShare):
        pytest.skip("special tokens are what this metric measures")
    alone = values_of(name, [(attribution[:1], batch[:1])])
    assert set(laws.counts_of(alone).values()) == {0}
    constant = {key for key in alone if key.endswith("/threshold") or key.startswith("num_")}
    assert all(math.isnan(value) for key, value in alone.items() if key not in constant)
    rest = values_of(name, [(attribution[1:], batch[1:])])
    together = values_of(name, [(attribution, batch)])
    assert together.pop("num_skipped") >= rest.pop("num_skipped")
    assert together == same(rest)


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


class Outside(AttributionMetric):
    """A metric outside the package that keeps all laws. Its subclasses break one law each."""

    columns = ("",)

    def measure(self, attribution, batch, predict):
        return (attribution.scores * attribution.token_mask.unsqueeze(1)).sum(dim=-1, keepdim=True)


class SeesPadding(Outside):
    def measure(self, attribution, batch, predict):
        return super().measure(attribution, batch, predict) / attribution.scores.shape[-1]


class ChangesScores(Outside):
    def measure(self, attribution, batch, predict):
        attribution.scores.mul_(2)
        return super().measure(attribution, batch, predict)


class KeepsState(Outside):
    def measure(self, attribution, batch, predict):
        self.number = getattr(self, "number", 0) + 1
        return super().measure(attribution, batch, predict) + self.number


class MeasuresNothing(Outside):
    def measure(self, attribution, batch, predict):
        return super().measure(attribution, batch, predict) * math.nan


class DrawsNumbers(Outside):
    def measure(self, attribution, batch, predict):
        torch.rand(1)
        return super().measure(attribution, batch, predict)


class WrongShape(Outside):
    def measure(self, attribution, batch, predict):
        return super().measure(attribution, batch, predict).squeeze(-1)


class ReturnsAList(Outside):
    def measure(self, attribution, batch, predict):
        return super().measure(attribution, batch, predict).tolist()


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (ReturnsAList, r"ReturnsAList.measure returned list: return a tensor \[B, K, len\(columns\)\]"),
        (SeesPadding, "SeesPadding: (batches of one example|padding) change"),
        (ChangesScores, "change"),
        (KeepsState, "batches of one example change"),
        (MeasuresNothing, "measures no row of random texts"),
        (DrawsNumbers, "`update` changes torch's random state"),
        (WrongShape, r"returned shape .* but \[B, K, len\(columns\)\]"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_metric_outside_the_package_that_breaks_a_law_is_told_which(metric, message):
    with pytest.raises(ValueError, match=message) as caught:
        laws.check_metric(metric())
    assert "\n" not in str(caught.value)


def test_a_metric_outside_the_package_that_keeps_all_laws_passes():
    laws.check_metric(Outside())
