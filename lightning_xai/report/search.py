"""The best trials of a hyperparameter search as a text table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lightning_xai.report.tables import Column, text_table


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Returns dotted key -> its shortest suffix that is unique among the keys.

    Example:
        >>> short_names(["model.loss.weight", "model.size.weight", "trainer.max_epochs"])
        {'model.loss.weight': 'loss.weight', 'model.size.weight': 'size.weight', 'trainer.max_epochs': 'max_epochs'}
    """
    names = {}
    for key in keys:
        parts = key.split(".")
        ends = (".".join(parts[-length:]) for length in range(1, len(parts) + 1))
        names[key] = next((end for end in ends if sum(f".{other}".endswith(f".{end}") for other in keys) == 1), key)
    return names


def best_trials_table(best: Mapping[str, dict[str, Any] | None], keys: Sequence[str], width: int = 80) -> str:
    """Returns a table with the best trial of each metric: the trial's number, its value and its settings.

    Args:
        best: metric -> row of its best trial, as in `Study.table`; None if no trial has a value for this metric.
        keys: dotted keys of the searched settings.
        width: number of characters in a line.

    Example:
        >>> row = {"number": 7, "val/map": 0.5, "trainer.max_epochs": 2}
        >>> print(best_trials_table({"val/map": row}, ["trainer.max_epochs"]))
        best trials
                 trial   value  max_epochs
        val/map      7  0.5000           2
    """
    best_rows = [row or {} for row in best.values()]
    columns = [
        Column("trial", [str(row.get("number", "-")) for row in best_rows]),
        Column("value", [_cell(row.get(tag)) for tag, row in zip(best, best_rows, strict=True)]),
        *(Column(name, [_cell(row.get(key)) for row in best_rows]) for key, name in short_names(keys).items()),
    ]
    return text_table(list(best), columns, title="best trials", width=width)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return "-" if math.isnan(value) else f"{value:.4f}" if abs(value) >= 0.001 else f"{value:.3g}"
