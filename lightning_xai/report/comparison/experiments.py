"""Reads the results of experiments with several seeds, and makes tables of means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.report.comparison.differences import differs
from lightning_xai.report.names import experiment_names
from lightning_xai.report.tables import Column, text_table
from lightning_xai.runs.experiment import runs_of
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.results_table import KEYS, run_results

STAR = "*"  # marks a mean that differs from that of the first experiment


def read_experiments(folders: Sequence[Path]) -> pd.DataFrame:
    """Returns the results of all tested runs of several experiments.

    Args:
        folders: folders of experiments, such as runs/tm, with a subfolder for each seed.

    Returns:
        A table with the columns experiment (a name that no other folder has), seed, split, preset, method, metric and
        value. Rows without a value are left out. An experiment of which no run met the bounds of its constraints has no
        rows, because such a run has no best checkpoint to test.

    Raises:
        ValueError: no folder is given, a folder is named twice, a folder has no tested run although its runs met their
            bounds (or have none), or no run of any folder met its bounds.

    Example:
        >>> read_experiments([Path("runs/none")])
        Traceback (most recent call last):
        ValueError: runs/none has no tested run (seed*/results.parquet): fit and test this experiment first, or ...
    """
    if not folders:
        raise ValueError("no experiment is named: give folders of finished experiments, such as runs/tm")
    places = [folder.resolve() for folder in folders]
    parts = []
    for number, (name, folder) in enumerate(zip(experiment_names(folders), folders, strict=True)):
        if places[number] in places[:number]:
            raise ValueError(f"{folder} is named twice: name each experiment once")
        if RunFolder(folder).manifest_file.exists():
            raise ValueError(f"{folder} is a single run: give its experiment, {folder.parent}")
        runs = [run for run in runs_of(folder) if run.is_tested]
        if not runs and not any(run.missed_its_bounds for run in runs_of(folder)):
            raise ValueError(
                f"{folder} has no tested run (seed*/results.parquet): fit and test this experiment first, or correct "
                "its name"
            )
        parts += [run_results(run.path).assign(experiment=name) for run in runs]
    if not parts:
        lines = "; ".join(missed_bounds(folders))
        raise ValueError(f"no run has results ({lines}): name another experiment too, or train with looser bounds")
    rows = pd.concat(parts, ignore_index=True)[["experiment", "seed", *KEYS, "value"]]
    return rows[rows["value"].notna()].reset_index(drop=True)


def missed_bounds(folders: Sequence[Path]) -> list[str]:
    """Returns a line for each experiment in which at least one seed did not meet the bounds of its constraints.

    Example:
        >>> missed_bounds([Path("runs/none")])
        []
    """
    lines = []
    for name, folder in zip(experiment_names(folders), folders, strict=True):
        runs = [run for run in runs_of(folder) if run.is_finished]
        missed = sum(run.missed_its_bounds for run in runs)
        if missed:
            lines.append(f"{name}: {len(runs) - missed} of {quantity(len(runs), 'seed')} met the bounds")
    return lines


def means_table(rows: pd.DataFrame, names: Sequence[str], columns: str, *, title: str, width: int = 80) -> str:
    """Returns a table with a row for each experiment. Its cells are "mean (standard deviation)" over seeds, in percent.

    A star marks a mean that differs from the mean of the first experiment, as `differs` decides.

    Args:
        rows: results with the columns experiment, seed and value, and a column with the name `columns`.
        names: the experiments. An experiment without results also gets a row.
        columns: name of the column of `rows` whose values become the columns of the table.
        title: text above the table.
        width: number of characters in a line.

    Example:
        >>> rows = pd.DataFrame([("tm", 0, "test", 0.9), ("tm", 1, "test", 0.7), ("igr", 0, "test", 0.5)])
        >>> rows.columns = ["experiment", "seed", "split", "value"]
        >>> print(means_table(rows, ["tm", "igr", "pgd"], "split", title="macro_f1"))
        macro_f1
                    test
        tm   80.0 (14.1)
        igr         50.0
        pgd            -
    """
    values: dict[Any, list[float]] = {
        key: group.tolist() for key, group in rows.groupby(["experiment", columns])["value"]
    }
    cells = {key: _cell(group, values.get((names[0], key[1]), [])) for key, group in values.items()}
    shown = [Column(str(value), [cells.get((name, value), "-") for name in names]) for value in rows[columns].unique()]
    return text_table(names, shown, title=title, width=width)


def _cell(values: Sequence[float], reference: Sequence[float]) -> str:
    percent = 100 * np.array(values)
    deviation = f" ({percent.std(ddof=1):.1f})" if len(values) > 1 else ""
    return f"{STAR if differs(values, reference) else ''}{percent.mean():.1f}{deviation}"
