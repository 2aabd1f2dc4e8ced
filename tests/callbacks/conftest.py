"""A tiny network on planted data under the Trainer's own defaults, and a callback that records attributions."""

import math
from typing import Any

import pytest
import torch
from lightning import Callback, Trainer

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.callbacks.attributions import ComputeAttributions
from lightning_xai.callbacks.base import ExplainedBatch
from lightning_xai.callbacks.cost import start_peak_memory
from lightning_xai.callbacks.evaluation import AttributionEvaluation
from lightning_xai.data.base import Encoder
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.base import TextSource
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.metrics.complexity import Entropy
from lightning_xai.metrics.discrete_rationale import DiscreteRationale
from lightning_xai.metrics.faithfulness import Comprehensiveness, Sufficiency
from lightning_xai.metrics.top_units import Percentages
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.types import Passes
from tests.conftest import tiny_classifier


class Recorder(Callback):
    """Keeps the scores of every explained example and class, by split and method; asks for all splits of a test."""

    needs_validation_in_test = True

    def __init__(self) -> None:
        self.scores: dict[tuple, torch.Tensor] = {}

    def on_explained(self, explained: ExplainedBatch) -> None:
        lengths = explained.batch.inputs.attention_mask.sum(dim=1)
        for name, attribution in explained.attributions.items():
            for row, index in enumerate(explained.batch.index.tolist()):
                for k in attribution.target_mask[row].nonzero().flatten().tolist():
                    key = (explained.split, name, index, int(attribution.targets[row, k]))
                    self.scores[key] = attribution.scores[row, k, : lengths[row]].clone()


class Constant(AttributionMethod):
    """Scores 1 for every token, or NaN in one example."""

    def __init__(self, broken: int | None = None) -> None:
        self.broken = broken

    def scores(self, model, inputs, targets):
        scores = torch.ones(*targets.shape, inputs.input_ids.shape[1])
        return scores.masked_fill((inputs.index == self.broken)[:, None, None], float("nan")) if self.broken else scores

    def passes(self, num_tokens, num_targets):
        return Passes(0, 0)


def planted_data(*, source: TextSource | None = None, encoder: Encoder | None = None, **arguments) -> TextDataModule:
    sizes: dict[str, Any] = {"num_train": 8, "num_validation": 6, "num_test": 7, "words_per_document": (4, 10)}
    source = source or Planted(num_classes=3, **sizes)
    return TextDataModule(source, encoder or VocabularyEncoder(words=95, max_length=32), **arguments)


def trainer(folder, *callbacks, **arguments) -> Trainer:
    """Returns a Trainer with its own defaults (inference_mode, use_distributed_sampler), but silent."""
    silent = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return Trainer(accelerator="cpu", default_root_dir=folder, callbacks=list(callbacks), **(silent | arguments))


def evaluation(preset: str = "preset", **arguments) -> AttributionEvaluation:
    sizes = Percentages([10, 50])
    erasing = [Comprehensiveness(sizes), Sufficiency(sizes)]
    return AttributionEvaluation(preset, [*erasing, Entropy(), DiscreteRationale(name="rationale")], **arguments)


def compute(*methods: AttributionMethod, **arguments) -> ComputeAttributions:
    return ComputeAttributions({type(method).__name__: method for method in methods}, **arguments)


@pytest.fixture
def memory_is_measured() -> None:
    if math.isnan(start_peak_memory(torch.device("cpu"))()):
        pytest.skip("this system does not tell the peak of a process's memory, or forbids its reset")


@pytest.fixture
def objective() -> Supervised:
    return Supervised(tiny_classifier("bert"))
