"""Reads the results of experiments with several seeds, and makes tables of means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.report.names import experiment_names
from lightning_xai.report.tables import Column, text_table
from lightning_xai.runs.experiment import runs_of
from lightning_xai.runs.results_table import KEYS, run_results


def read_experiments(folders: Sequence[Path]) -> pd.DataFrame:
    """Returns the results of all tested runs of several experiments.

    Args:
        folders: folders of experiments, such as runs/tm, with a subfolder for each seed.

    Returns:
        A table with the columns experiment (a name that no other folder has), seed, split, preset, method, metric and
        value. Rows without a value are left out.

    Raises:
        ValueError: no folder is given, a folder is named twice, or a folder has no tested run.

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
        runs = [run for run in runs_of(folder) if run.is_tested]
        if not runs:
            raise ValueError(
                f"{folder} has no tested run (seed*/results.parquet): fit and test this experiment first, or correct "
                "its name"
            )
        parts += [run_results(run.path).assign(experiment=name) for run in runs]
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


def means_table(rows: pd.DataFrame, columns: str, *, title: str, width: int = 80) -> str:
    """Returns a table with a row for each experiment. Its cells are "mean (standard deviation)" over seeds, in percent.

    Args:
        rows: results with the columns experiment, seed and value, and a column with the name `columns`.
        columns: name of the column of `rows` whose values become the columns of the table.
        title: text above the table.
        width: number of characters in a line.

    Example:
        >>> rows = pd.DataFrame([("tm", 0, "test", 0.9), ("tm", 1, "test", 0.7), ("igr", 0, "test", 0.5)])
        >>> rows.columns = ["experiment", "seed", "split", "value"]
        >>> print(means_table(rows, "split", title="macro_f1"))
        macro_f1
                    test
        tm   80.0 (14.1)
        igr         50.0
    """
    experiments = [str(name) for name in rows["experiment"].unique()]
    cells = {key: _cell(values) for key, values in rows.groupby(["experiment", columns])["value"]}
    shown = [
        Column(str(value), [cells.get((name, value), "-") for name in experiments]) for value in rows[columns].unique()
    ]
    return text_table(experiments, shown, title=title, width=width)


def _cell(values: pd.Series) -> str:
    mean = f"{100 * values.mean():.1f}"
    return f"{mean} ({100 * values.std():.1f})" if len(values) > 1 else mean
