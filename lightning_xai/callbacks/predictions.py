"""Writes the predictions of `predict` to a CSV file, one row per example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from lightning import Callback, LightningModule, Trainer

from lightning_xai.callbacks.base import data_of, decision_threshold_of, is_dry_run
from lightning_xai.functional.classes.targets import predicted_classes
from lightning_xai.runs.files.whole_files import write_csv
from lightning_xai.runs.ranks import gather
from lightning_xai.types import Batch


def predictions_table(
    probabilities: dict[int, list[float]], predicted: dict[int, list[bool]], ids: dict[int, str], class_names: list[str]
) -> pd.DataFrame:
    """Returns a table with one row per example: its id, its predicted classes and the probability of every class.

    Args:
        probabilities: index of the example -> probabilities [C].
        predicted: index of the example -> whether each of the C classes is predicted.
        ids: index of the example -> its id in the data.
        class_names: names of the C classes. The names of an example's predicted classes are joined by "; ".

    Example:
        >>> predictions_table({0: [0.2, 0.8]}, {0: [False, True]}, {0: "a7"}, ["bad", "good"]).to_dict("records")
        [{'id': 'a7', 'predicted': 'good', 'p(bad)': 0.2, 'p(good)': 0.8}]
    """
    rows = []
    for index in sorted(probabilities):
        names = [name for name, chosen in zip(class_names, predicted[index], strict=True) if chosen]
        columns = {f"p({name})": p for name, p in zip(class_names, probabilities[index], strict=True)}
        rows.append({"id": ids[index], "predicted": "; ".join(names), **columns})
    return pd.DataFrame(rows, columns=["id", "predicted", *(f"p({name})" for name in class_names)])


class PredictionsFile(Callback):
    """At the end of `predict`, writes the predictions of all processes to one CSV file.

    Args:
        file: the file. After a kill, it is either complete or unchanged.

    Example:
        >>> PredictionsFile(Path("runs/tm/seed0/predictions_test.csv")).file.name
        'predictions_test.csv'
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._probabilities: dict[int, list[float]] = {}
        self._predicted: dict[int, list[bool]] = {}

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._probabilities, self._predicted = {}, {}

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        probs = outputs["probs"].float()
        predicted = predicted_classes(
            probs, multilabel=batch.labels.dim() == 2, decision_threshold=decision_threshold_of(pl_module)
        )
        for row, index in enumerate(batch.index.tolist()):
            self._probabilities[index] = probs[row].tolist()
            self._predicted[index] = predicted[row].tolist()

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        gathered = gather((self._probabilities, self._predicted))
        if not trainer.is_global_zero or is_dry_run(trainer):
            return
        data = data_of(trainer)
        probabilities = {index: values for part, _ in gathered for index, values in part.items()}
        predicted = {index: values for _, part in gathered for index, values in part.items()}
        ids = {index: str(data.example(data.predict_split, index)["id"]) for index in probabilities}
        table = predictions_table(probabilities, predicted, ids, data.class_names)
        write_csv(table, self.file)
