"""Prints the run's folder, the network and the sizes of the data at the start of a run."""

from __future__ import annotations

from typing import Any

from lightning import Callback, LightningModule, Trainer

from lightning_xai.callbacks.base import data_of, network_of
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.runs.progress import unsaid


def data_lines(summary: dict[str, Any]) -> list[str]:
    """Turns a data module's summary into lines about the source, the vocabulary (if any), and each split.

    Example:
        >>> sizes = {"examples": 2000, "mean_tokens": 31.4, "padding_fraction": 0.07, "truncated_fraction": 0.0}
        >>> data_lines({"train": {**sizes, "rows": 6920, "evidence_kept_fraction": None}})
        ['  train: 2,000 examples of 31 tokens, chosen from 6,920, 7% padding']
    """
    lines = [f"  {line}" for line in summary.get("report", [])]
    if summary.get("num_words"):
        coverage = summary["vector_coverage"]
        line = f"  vocabulary: {quantity(summary['num_words'], 'word')}"
        lines.append(line if coverage is None else f"{line}, {coverage:.0%} with a pretrained vector")
    for name, facts in summary.items():
        if not isinstance(facts, dict):
            continue
        line = f"  {name}: {quantity(facts['examples'], 'example')} of {quantity(round(facts['mean_tokens']), 'token')}"
        if facts["examples"] < facts.get("rows", 0):  # `max_examples` left out some rows
            line += f", chosen from {facts['rows']:,}"
        if facts["padding_fraction"]:
            line += f", {facts['padding_fraction']:.0%} padding"
        if facts["truncated_fraction"]:
            line += f", {facts['truncated_fraction']:.0%} truncated"
        if facts["evidence_kept_fraction"] is not None:
            weak = "weak " if facts.get("rationales_are_weak") else ""
            line += f", {facts['evidence_kept_fraction']:.0%} of {weak}evidence kept"
        lines.append(line)
    return lines


class RunSummary(Callback):
    """Prints facts about the run and the sizes of the data when the run starts.

    The facts are the run's folder, objective, network, number of parameters, seed, device and precision.

    If a command makes several runs, a later run leaves out lines about the data that an earlier run has printed.

    Args:
        seed: the seed of the run; None if unknown.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> trainer = Trainer(default_root_dir="runs/tm/seed0", accelerator="cpu", logger=False)
        >>> RunSummary(seed=0).on_fit_start(trainer, Supervised(random_bert()))
        runs/tm/seed0: Supervised, HFClassifier, 2,310 parameters, seed 0, cpu, 32-true
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self._printed = False

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._print(trainer, pl_module)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._print(trainer, pl_module)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._print(trainer, pl_module)

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._print(trainer, pl_module)

    def _print(self, trainer: Trainer, module: LightningModule) -> None:
        if self._printed or not trainer.is_global_zero:
            return
        self._printed = True
        network = network_of(module)
        num_parameters = sum(parameter.numel() for parameter in network.parameters())
        classes = f"{type(module).__name__}, {type(network).__name__}"
        parts = [classes, f"{num_parameters:,} parameters", *([] if self.seed is None else [f"seed {self.seed}"])]
        devices = f"{trainer.world_size} x " if trainer.world_size > 1 else ""
        parts += [f"{devices}{module.device.type}", str(trainer.precision)]
        print(f"{trainer.default_root_dir}: {', '.join(parts)}")
        if hasattr(data_of(trainer), "summary"):
            for line in unsaid(data_lines(data_of(trainer).summary())):
                print(line)
