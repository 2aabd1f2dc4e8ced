"""What ROAR chains of several seeds and experiments come to: RACU with intervals, its table, and the curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pandas as pd
import torch
from torch.utils.tensorboard import SummaryWriter

from lightning_xai.metrics.classification import LOWER_IS_BETTER
from lightning_xai.metrics.racu import bca_interval, leakage, racu
from lightning_xai.report.curves import Curve, Panel, curves_figure, figure_image, save_png
from lightning_xai.report.names import experiment_names
from lightning_xai.report.tables import Column, text_table, wrap
from lightning_xai.runs.folder import runs_of
from lightning_xai.runs.store import write_whole

Quantity = Literal["racu", "leakage"]

RANDOM = "random"
SPARSITY = {"top_tokens": "top tokens", "top_percent": "top % of tokens"}  # metric -> what its points are
SUFFIX = ".racu"  # of the events file


def read_chains(folders: Sequence[Path], metrics: Sequence[str], split: str) -> pd.DataFrame:
    """Returns the rows of every `seed*/roar.csv` of the experiments, of one metric each, with their experiment.

    Args:
        folders: of experiments, such as runs/roar.
        metrics: one for all of the folders, or one for each.
        split: whose scores count.

    Raises:
        ValueError: a folder without a finished chain, or without that metric of that split; a chain of another format.
    """
    if len(metrics) not in (1, len(folders)):
        raise ValueError(f"{len(metrics)} metrics for {len(folders)} experiments: give one for all, or one for each")
    wanted = list(metrics) * (len(folders) if len(metrics) == 1 else 1)
    parts = []
    for folder, name, metric in zip(folders, experiment_names(folders), wanted, strict=True):
        runs = [run for run in runs_of(folder) if run.roar_file.exists()]
        if not runs:
            raise ValueError(f"{folder} has no seed*/roar.csv: name the folder of an experiment with a finished chain")
        for run in runs:
            run.check_format()
        found = pd.concat([pd.read_csv(run.roar_file) for run in runs], ignore_index=True)
        rows = found[(found["metric"] == metric) & (found["split"] == split)]
        if rows.empty:
            pairs = sorted(set(zip(found["metric"], found["split"], strict=True)))
            known = ", ".join(f"{other} of {where}" for other, where in pairs)
            raise ValueError(f"{folder} has no {metric} of {split}: choose one of {known}")
        parts.append(rows.assign(experiment=name))
    return pd.concat(parts, ignore_index=True)


def racu_by_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns experiment, method, quantity, seed and value for chains in steps of percent.

    Args:
        rows: of `read_chains`.

    Raises:
        ValueError: a curve lacks points that the random one has.
    """
    found = []
    chains = rows[rows["step"] == "percentage"]
    for (experiment, seed), chain in chains.groupby(["experiment", "seed"], sort=False):
        curves = {
            key: curve.set_index("amount")["value"].sort_index()
            for key, curve in chain.groupby(["method", "control"], sort=False)
        }
        baseline = curves[RANDOM, False]
        fractions = torch.tensor(baseline.index.to_numpy()) / 100
        for (method, control), curve in curves.items():
            if method == RANDOM:
                continue
            if list(curve.index) != list(baseline.index):
                raise ValueError(
                    f"{experiment}, seed {seed}: {method} has scores at {list(curve.index)} % and random at "
                    f"{list(baseline.index)} %: run the chain to its end with one list of percentages"
                )
            quantity: Quantity = "leakage" if control else "racu"
            area = leakage if control else racu
            sign = -1 if chain["metric"].iloc[0] in LOWER_IS_BETTER else 1
            value = area(*(sign * torch.tensor(scores.to_numpy()) for scores in (baseline, curve)), fractions)
            found.append((experiment, method, quantity, seed, float(value)))
    return pd.DataFrame(found, columns=["experiment", "method", "quantity", "seed", "value"])


def with_intervals(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Returns mean, low, high (95 %, BCa) and num_seeds of `value` for each combination of `keys`.

    The mean is undefined if one seed's value is.
    """
    found = []
    for key, group in rows.groupby(keys, sort=False):
        low, high = bca_interval(torch.tensor(group["value"].to_numpy()))
        found.append((*key, group["value"].mean(skipna=False), low, high, len(group)))
    return pd.DataFrame(found, columns=[*keys, "mean", "low", "high", "num_seeds"])


def racu_table(summary: pd.DataFrame, *, width: int = 80) -> str:
    """Returns methods by experiments in percent, "57.9 +14.4 -19.8", in as many blocks as `width` asks for."""
    parts = []
    titles = {
        "racu": "RACU in percent: 100 loses all at once, 0 loses what random erasures lose",
        "leakage": "leakage in percent: what the erasures' positions alone tell of the label",
    }
    for quantity, title in titles.items():
        rows = summary[summary["quantity"] == quantity]
        if len(rows):
            parts.append(_quantity_table(rows, title, width))
    notes = []
    if (summary["num_seeds"] > 1).any():
        notes.append("+ and -: to the ends of the 95 % interval over seeds (BCa bootstrap)")
    if summary["mean"].isna().any():
        notes.append("-: undefined, as erasing everything costs nothing or helps in one of the seeds")
    return "\n\n".join([*parts, *("\n".join(wrap(note, width)) for note in notes)])


def _quantity_table(rows: pd.DataFrame, title: str, width: int) -> str:
    methods = list(rows["method"].unique())
    cells = {(row.experiment, row.method): _cell(row) for row in rows.itertuples()}
    columns = []
    for experiment, group in rows.groupby("experiment", sort=False):
        shown = [cells.get((experiment, method), "") for method in methods]
        columns.append(Column(str(experiment), [*shown, _range(group["num_seeds"])]))
    return text_table([*methods, "seeds"], columns, title=title, width=width)


def _range(numbers: pd.Series) -> str:
    """Returns "5", or "3 to 5" where methods have other numbers of seeds."""
    low, high = numbers.min(), numbers.max()
    return str(high) if low == high else f"{low} to {high}"


def _cell(row) -> str:
    if pd.isna(row.mean):
        return "-"
    mean = f"{100 * row.mean:.1f}"
    if pd.isna(row.low):
        return mean
    return f"{mean} +{100 * (row.high - row.mean):.1f} -{100 * (row.mean - row.low):.1f}"


def roar_panels(rows: pd.DataFrame) -> list[Panel]:
    """Returns a panel an experiment: scores in percent by what is erased, from the rows of `read_chains`."""
    panels = []
    for (experiment, metric, step), chain in rows.groupby(["experiment", "metric", "step"], sort=False):
        points = with_intervals(chain, ["method", "control", "amount"]).sort_values("amount", kind="stable")
        curves = []
        for (method, control), curve in points.groupby(["method", "control"], sort=False):
            role = "control" if control else "reference" if method == RANDOM else "curve"
            curves.append(_curve(method, curve, "amount", role))
        erased = "% of tokens erased" if step == "percentage" else "tokens erased"
        panels.append(Panel(experiment, erased, f"{metric} [%]", curves))
    return panels


def sparsity_panels(folders: Sequence[Path], split: str) -> list[Panel]:
    """Returns two panels an experiment that was tested with the preset "sparsity": the share of the largest tokens."""
    panels = []
    for folder, name in zip(folders, experiment_names(folders), strict=True):
        tables = [run.results for run in runs_of(folder) if run.results is not None]
        if not tables:
            continue
        rows = pd.concat(tables, ignore_index=True)
        rows = rows[(rows["preset"] == "sparsity") & (rows["split"] == split)]
        points = rows["metric"].str.extract(r"^(?P<kind>\w+)/(?P<point>[\d.]+)$")
        rows = rows.assign(kind=points["kind"], point=points["point"].astype(float))
        for kind, label in SPARSITY.items():
            shown = with_intervals(rows[rows["kind"] == kind], ["method", "point"])
            curves = [_curve(method, curve, "point") for method, curve in shown.groupby("method", sort=False)]
            if curves:
                panels.append(Panel(name, label, "share of importance [%]", curves))
    return panels


def _curve(name: str, points: pd.DataFrame, x: str, role: str = "curve") -> Curve:
    mean, low, high = (100 * points[column].to_numpy() for column in ("mean", "low", "high"))
    return Curve(name, points[x].to_numpy(), mean, low, high, role)


def write_report(
    folders: Sequence[Path], output: Path, *, metrics: Sequence[str], split: str = "test", events: Path | None = None
) -> str:
    """Writes racu.csv, racu_seeds.csv, roar.png and, where there are results of it, sparsity.png; returns the table.

    Args:
        folders: see `read_chains`, as are metrics and split.
        output: folder of the files.
        events: folder of TensorBoard's file with the same pictures; by default `output`.

    Raises:
        ValueError: see `read_chains` and `racu_by_seed`.
    """
    rows = read_chains(folders, metrics, split)
    output.mkdir(parents=True, exist_ok=True)
    by_seed = racu_by_seed(rows)
    summary = with_intervals(by_seed, ["experiment", "method", "quantity"])
    write_whole(output / "racu_seeds.csv", lambda file: by_seed.to_csv(file, index=False))
    write_whole(output / "racu.csv", lambda file: summary.to_csv(file, index=False))
    panels = {"roar": roar_panels(rows), "sparsity": sparsity_panels(folders, split)}
    events = events or output
    events.mkdir(parents=True, exist_ok=True)
    for old in events.glob(f"events.out.tfevents*{SUFFIX}"):  # else every report would add to TensorBoard's list
        old.unlink(missing_ok=True)  # another chain that ends now may have removed it
    with SummaryWriter(str(events), filename_suffix=SUFFIX) as writer:
        for name, shown in panels.items():
            if shown:
                image = figure_image(curves_figure(shown, max_columns=3 if name == "roar" else 2))
                write_whole(output / f"{name}.png", lambda file, image=image: save_png(image, file))
                writer.add_image(f"{name}/{split}", image, dataformats="HWC")
    written = [output / "racu.csv", *(output / f"{name}.png" for name, shown in panels.items() if shown)]
    table = [racu_table(summary)] if len(summary) else []  # chains of one-token steps have no RACU
    return "\n".join([*table, *(f"written: {path}" for path in written)])
