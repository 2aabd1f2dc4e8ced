"""A tiny network on planted data under the Trainer's own defaults, and what callbacks leave in the outputs."""

import pytest
import torch
from lightning import Callback, Trainer

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.callbacks.attributions import ComputeAttributions
from lightning_xai.callbacks.evaluation import AttributionEvaluation
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.metrics.complexity import Entropy
from lightning_xai.metrics.discrete_rationale import DiscreteRationale
from lightning_xai.metrics.faithfulness import Comprehensiveness, Sufficiency
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.types import Passes
from tests.conftest import tiny_classifier

TOP = {"percentages": [10, 50]}


class Recorder(Callback):
    """Keeps the scores of every explained example and class, by split and method."""

    def __init__(self) -> None:
        self.scores: dict[tuple, torch.Tensor] = {}

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        self._record("validation", outputs)

    def on_test_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        self._record(trainer.datamodule.test_splits[dataloader_idx], outputs)

    def on_predict_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        self._record("predict", outputs)

    def _record(self, split, outputs) -> None:
        for name, attribution in outputs.get("attributions", {}).items():
            lengths = outputs["explained"].inputs.attention_mask.sum(dim=1)
            for row, index in enumerate(outputs["explained"].index.tolist()):
                for k in attribution.target_mask[row].nonzero().flatten().tolist():
                    key = (split, name, index, int(attribution.targets[row, k]))
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


def planted_data(**arguments) -> TextDataModule:
    source = Planted(num_classes=3, num_train=8, num_validation=6, num_test=7, words_per_document=(4, 10))
    return TextDataModule(source, VocabularyEncoder(words=95, max_length=32), **arguments)


def trainer(folder, *callbacks, **arguments) -> Trainer:
    """Returns a Trainer with its own defaults (inference_mode, use_distributed_sampler), but silent."""
    silent = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return Trainer(accelerator="cpu", default_root_dir=folder, callbacks=list(callbacks), **(silent | arguments))


def evaluation(preset: str = "preset", **arguments) -> AttributionEvaluation:
    metrics = [Comprehensiveness(**TOP), Sufficiency(**TOP), Entropy(), DiscreteRationale(name="rationale")]
    return AttributionEvaluation(preset, metrics, **arguments)


def compute(*methods: AttributionMethod, **arguments) -> ComputeAttributions:
    return ComputeAttributions({type(method).__name__: method for method in methods}, **arguments)


@pytest.fixture
def objective() -> Supervised:
    return Supervised(tiny_classifier("bert"))
