"""The trials of a hyperparameter search as text: the best ones in a table, and lines during the search."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
        Column("value", [value_text(row.get(tag)) for tag, row in zip(best, best_rows, strict=True)]),
        *(Column(name, [value_text(row.get(key)) for row in best_rows]) for key, name in short_names(keys).items()),
    ]
    return text_table(list(best), columns, title="best trials", width=width)


def best_so_far(best: Callable[[str], dict[str, Any] | None], tags: Iterable[str]) -> str:
    """Returns a line with the best trial so far for each metric.

    Args:
        best: function that returns the row of a metric's best trial, such as `Study.best`.
        tags: the metrics.

    Example:
        >>> best_so_far({"val/map": {"number": 7, "val/map": 0.5}, "val/loss": None}.get, ["val/map", "val/loss"])
        'best so far: val/map 0.5000 (trial 7), no value of val/loss'
    """
    parts = []
    for tag in tags:
        row = best(tag)
        known = row is not None and f"{tag} {value_text(row[tag])} (trial {row['number']})"
        parts.append(known or f"no value of {tag}")
    return f"best so far: {', '.join(parts)}"


def setting_text(value: Any) -> str:
    """Returns the value of a setting as text: a float with four significant digits, otherwise as in YAML.

    Example:
        >>> setting_text(0.00123456), setting_text(10.0), setting_text(None), setting_text("sdpa"), setting_text(True)
        ('0.001235', '10', 'null', 'sdpa', 'true')
    """
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)


def value_text(value: Any) -> str:
    """Returns a value of a metric or setting as text; "-" for None and NaN.

    A float has four decimals or, if its magnitude is below 0.001, three significant digits.

    Example:
        >>> value_text(0.56796), value_text(2e-05), value_text("sdpa"), value_text(None)
        ('0.5680', '2e-05', 'sdpa', '-')
    """
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return "-" if math.isnan(value) else f"{value:.4f}" if abs(value) >= 0.001 else f"{value:.3g}"
