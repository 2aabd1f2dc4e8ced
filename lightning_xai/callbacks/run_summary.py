"""Says in a few lines what a command is about to work on."""

from __future__ import annotations

from typing import Any

from lightning import Callback, LightningModule, Trainer


def data_lines(summary: dict[str, Any]) -> list[str]:
    """Returns a line for the vocabulary and for each split of a data module's summary, within 80 columns."""
    weak = "weak evidence" if summary.get("rationales_are_weak") else "evidence"
    lines = []
    if summary.get("num_words"):
        covered = summary["vector_coverage"]
        line = f"  vocabulary: {summary['num_words']:,} words"
        lines.append(line if covered is None else f"{line}, {covered:.0%} with a pretrained vector")
    for name, facts in summary.items():
        if not isinstance(facts, dict):
            continue
        line = f"  {name}: {facts['examples']:,} examples of {facts['mean_tokens']:.0f} tokens"
        if facts["padding_fraction"]:
            line += f", {facts['padding_fraction']:.0%} padding"
        if facts["truncated_fraction"]:
            line += f", {facts['truncated_fraction']:.0%} truncated"
        if facts["evidence_kept_fraction"] is not None:
            line += f", {weak} kept {facts['evidence_kept_fraction']:.0%}"
        lines.append(line)
    return lines


class RunSummary(Callback):
    """Prints the run's folder, the network with its number of parameters, and the sizes of the data, once."""

    def __init__(self) -> None:
        self._said = False

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._say(trainer, pl_module)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._say(trainer, pl_module)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._say(trainer, pl_module)

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._say(trainer, pl_module)

    def _say(self, trainer: Trainer, module: LightningModule) -> None:
        if self._said or not trainer.is_global_zero:
            return
        self._said = True
        size = sum(parameter.numel() for parameter in module.network.parameters())
        kinds = f"{type(module).__name__}, {type(module.network).__name__}"
        print(f"{trainer.default_root_dir}: {kinds}, {size:,} parameters")
        if hasattr(trainer.datamodule, "summary"):
            print("\n".join(data_lines(trainer.datamodule.summary())))
