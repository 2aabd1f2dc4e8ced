"""Results of ROAR chains as tables and curves: a metric against the percentage or number of erased tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.report.curves import Panel, Role
from lightning_xai.report.intervals import percent_curve, with_intervals
from lightning_xai.report.names import experiment_names
from lightning_xai.report.tables import Column, text_table
from lightning_xai.runs.experiment import runs_of
from lightning_xai.runs.folder import RUN_AGAIN

RANDOM = "random"  # name of the baseline that erases random tokens
READ = ("seed", "method", "amount", "split", "metric", "value", "control", "amount_unit")  # columns that reports need


def roar_table(results: pd.DataFrame, metric: str, *, split: str = "test", width: int = 80) -> str:
    """Returns a table of one metric in percent: a row for each method, a column for each amount of erased tokens.

    Args:
        results: rows of one roar.csv.
        metric: name of the metric, such as "macro_f1".
        split: the split whose results are shown.
        width: number of characters in a line.

    Example:
        >>> rows = [("random", 0, 0.9), ("random", 100, 0.5), ("gradient", 0, 0.9), ("gradient", 100, 0.5)]
        >>> results = pd.DataFrame(rows, columns=["method", "amount", "value"])
        >>> results = results.assign(split="test", metric="accuracy", control=False, amount_unit="percentage")
        >>> print(roar_table(results, "accuracy"))
        ROAR, accuracy on test in percent, by % erased
                     0   100
        random    90.0  50.0
        gradient  90.0  50.0
    """
    rows = results[(results["metric"] == metric) & (results["split"] == split)]
    names = rows["method"] + rows["control"].map({True: " positions", False: ""})
    table = rows.assign(name=names).pivot(index="name", columns="amount", values="value").loc[names.unique()]
    unit = "%" if rows["amount_unit"].iloc[0] == "percentage" else "tokens"
    columns = [Column(str(amount), [_cell(value) for value in table[amount]]) for amount in table.columns]
    title = f"ROAR, {metric} on {split} in percent, by {unit} erased"
    return text_table([str(name) for name in table.index], columns, title=title, width=width)


def read_chains(folders: Sequence[Path], metrics: Sequence[str], split: str) -> pd.DataFrame:
    """Returns the rows in the roar.csv files of all experiments and seeds, with an additional column `experiment`.

    Args:
        folders: folders of experiments, such as runs/roar.
        metrics: one metric for all experiments, or one metric for each experiment. Rows of other metrics are left out.
        split: the split whose rows are returned.

    Raises:
        ValueError: the number of `metrics` is neither 1 nor the number of experiments; or an experiment has no finished
            chain, a chain in another format, a roar.csv that is damaged or lacks a column, or no rows for the metric
            and split.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "roar"
        >>> (folder / "seed0").mkdir(parents=True)
        >>> rows = pd.DataFrame([("random", 0, 0.9), ("random", 100, 0.5)], columns=["method", "amount", "value"])
        >>> rows = rows.assign(seed=0, split="test", metric="accuracy", control=False, amount_unit="percentage")
        >>> rows.to_csv(folder / "seed0" / "roar.csv", index=False)
        >>> read_chains([folder], ["accuracy"], "test")["experiment"].tolist()
        ['roar', 'roar']
    """
    if len(metrics) not in (1, len(folders)):
        raise ValueError(
            f"{quantity(len(metrics), 'metric')} for {quantity(len(folders), 'experiment')}: "
            "give one metric for all, or a metric for each"
        )
    metric_of_each = list(metrics) * (len(folders) if len(metrics) == 1 else 1)
    parts = []
    for folder, name, metric in zip(folders, experiment_names(folders), metric_of_each, strict=True):
        runs = [run for run in runs_of(folder) if run.roar_file.exists()]
        if not runs:
            raise ValueError(f"{folder} has no seed*/roar.csv: give the folder of an experiment with a finished chain")
        for run in runs:
            run.check_format(RUN_AGAIN)
        results = pd.concat([_read_rows(run.roar_file) for run in runs], ignore_index=True)
        rows = results[(results["metric"] == metric) & (results["split"] == split)]
        if rows.empty:
            pairs = sorted(set(zip(results["metric"], results["split"], strict=True)))
            available = ", ".join(f"{metric} on {split}" for metric, split in pairs)
            raise ValueError(f"{folder} has no results for {metric} on {split}: choose one of {available}")
        parts.append(rows.assign(experiment=name))
    return pd.concat(parts, ignore_index=True)


def _read_rows(file: Path) -> pd.DataFrame:
    try:
        rows = pd.read_csv(file)
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is damaged ({error}): run the chain again with this version") from error
    if missing := [column for column in READ if column not in rows]:
        raise ValueError(f"{file} has no column {', '.join(missing)}: run the chain again with this version")
    return rows


def roar_panels(rows: pd.DataFrame) -> list[Panel]:
    """Returns a panel for each experiment: a metric's mean over seeds, in percent, against the amount of erased tokens.

    Args:
        rows: rows that `read_chains` returns.

    Example:
        >>> rows = pd.DataFrame([("random", 0, 0.9), ("random", 100, 0.5)], columns=["method", "amount", "value"])
        >>> rows = rows.assign(experiment="roar", metric="accuracy", amount_unit="percentage", control=False)
        >>> (panel,) = roar_panels(rows)
        >>> panel.title, panel.x_label, panel.curves[0].role
        ('roar', '% of tokens erased', 'reference')
    """
    panels = []
    for (experiment, metric, amount_unit), chain in rows.groupby(["experiment", "metric", "amount_unit"], sort=False):
        points = with_intervals(chain, ["method", "control", "amount"]).sort_values("amount", kind="stable")
        curves = []
        for (method, control), curve in points.groupby(["method", "control"], sort=False):
            role: Role = "control" if control else "reference" if method == RANDOM else "curve"
            curves.append(percent_curve(str(method), curve, "amount", role))
        x_label = "% of tokens erased" if amount_unit == "percentage" else "tokens erased"
        panels.append(Panel(str(experiment), x_label, f"{metric} [%]", curves))
    return panels


def _cell(value: float) -> str:
    if pd.isna(value):
        return "-"
    return "100" if value >= 0.9995 else f"{100 * value:.1f}"
