"""Tables and figures that compare finished experiments: classification, plausibility, faithfulness, correlations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from lightning_xai.report.comparison.experiments import means_table
from lightning_xai.report.comparison.run_points import spread_figure
from lightning_xai.report.correlation import Correlation, correlation
from lightning_xai.report.curves import Panel, curves_figure, figure_image, save_png
from lightning_xai.report.intervals import percent_curve, with_intervals
from lightning_xai.report.scatter import PointPanel, scatter_figure
from lightning_xai.runs.files.whole_files import write_whole
from lightning_xai.runs.splits import VALIDATION

LAYER = re.compile(r"(.+)_layer(\d+)")  # names of methods that explain the hidden states after one layer
PER_SIZE = re.compile(r"(normalized_\w+)/([\d.]+)")  # names of metrics with a value for each percentage of tokens


def rows_of_metric(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Returns the rows of a classification metric.

    Raises:
        ValueError: no run has the metric.

    Example:
        >>> row = {"preset": "", "metric": "macro_f1", "split": "test"}
        >>> len(rows_of_metric(pd.DataFrame([row]), "macro_f1"))
        1
    """
    selected = rows[(rows["preset"] == "") & (rows["metric"] == metric)]
    if not len(selected):
        known = ", ".join(sorted(rows[rows["preset"] == ""]["metric"].unique()))
        raise ValueError(f"no run has the metric {metric!r}: choose one of {known}")
    return selected


def attribution_rows(rows: pd.DataFrame, metric: str, preset: str | None = None) -> pd.DataFrame:
    """Returns the rows of an attribution metric in `preset` or, if this is None, in the only preset with the metric.

    Raises:
        ValueError: several presets have the metric, and `preset` is None.

    Example:
        >>> row = {"preset": "er", "metric": "rationale/auroc", "split": "test"}
        >>> len(attribution_rows(pd.DataFrame([row]), "rationale/auroc"))
        1
    """
    selected = rows[(rows["preset"] != "") & (rows["metric"] == metric)]
    selected = selected if preset is None else selected[selected["preset"] == preset]
    presets = sorted(selected["preset"].unique())
    if len(presets) > 1:
        raise ValueError(f"the presets {', '.join(presets)} have the metric {metric}: choose one with --preset")
    return selected


def plausibility_tables(
    rows: pd.DataFrame, names: Sequence[str], metrics: Sequence[str], preset: str | None, width: int
) -> list[str]:
    """Returns a table for each metric and split, with a row for each of the experiments `names` and a column for each
    method.

    Methods for single layers (alti_layer0, alti_layer1, ...) are left out; see `layer_panels`.
    """
    tables = []
    for metric in metrics:
        selected = attribution_rows(rows, metric, preset)
        selected = selected[~selected["method"].str.fullmatch(LAYER.pattern)]
        for split, part in selected.groupby("split", sort=False):
            tables.append(means_table(part, names, "method", title=f"{metric} on {split}, in percent", width=width))
    return tables


def layer_panels(rows: pd.DataFrame, metric: str, preset: str | None) -> list[Panel]:
    """Returns panels of a metric against the layer, one for each split and series (alti_layer0, alti_layer1, ...)."""
    selected = attribution_rows(rows, metric, preset)
    parts = selected["method"].str.extract(f"^{LAYER.pattern}$")
    selected = selected.assign(family=parts[0], layer=parts[1].astype(float)).dropna(subset=["family"])
    panels = []
    for (split, family), part in selected.groupby(["split", "family"], sort=False):
        summary = with_intervals(part, ["experiment", "layer"]).sort_values("layer")
        curves = [percent_curve(str(name), group, "layer") for name, group in summary.groupby("experiment", sort=False)]
        panels.append(Panel(f"{family}, {split}", "layer", f"{metric} [%]", curves))
    return panels


def faithfulness_panels(rows: pd.DataFrame, preset: str) -> list[Panel]:
    """Returns a panel for each experiment, split and normalized metric of `preset`, with a curve for each method.

    Args:
        rows: rows that `read_experiments` returns.
        preset: a preset whose metrics have a value for each percentage of tokens, such as "er".
    """
    selected = rows[rows["preset"] == preset]
    parts = selected["metric"].str.extract(f"^{PER_SIZE.pattern}$")
    selected = selected.assign(quantity=parts[0], size=parts[1].astype(float)).dropna(subset=["quantity"])
    panels = []
    for (experiment, split, quantity), part in selected.groupby(["experiment", "split", "quantity"], sort=False):
        summary = with_intervals(part, ["method", "size"]).sort_values("size")
        curves = [percent_curve(str(name), group, "size") for name, group in summary.groupby("method", sort=False)]
        title = f"{experiment}, {split}"
        panels.append(Panel(title, "top % of tokens", f"{str(quantity).replace('_', ' ')} [%]", curves))
    return panels


def predictor_rows(
    rows: pd.DataFrame, *, metric: str, plausibility: str, preset: str | None, in_domain: str, others: Sequence[str]
) -> pd.DataFrame:
    """Returns, for every run, the quantities between which correlations are computed.

    Args:
        rows: rows that `read_experiments` returns.
        metric: the classification metric.
        plausibility: the plausibility metric.
        preset: preset of the plausibility metric; None if only one preset has the metric.
        in_domain: the in-domain split.
        others: the out-of-domain splits.

    Returns:
        A table with the columns experiment, seed, quantity and value. The quantities are `metric` on each split, the
        mean of `metric` over the out-of-domain splits, and the plausibility of each method on each split.
    """
    scores = rows_of_metric(rows, metric)
    chosen = scores[scores["split"].isin([in_domain, *others])]
    parts = [chosen.assign(quantity=metric + " on " + chosen["split"])]
    means = scores[scores["split"].isin(others)].groupby(["experiment", "seed"], sort=False)["value"]
    complete = means.mean()[means.size() == len(others)].reset_index()
    parts.append(complete.assign(quantity=f"{metric} out of domain"))
    plausible = attribution_rows(rows, plausibility, preset)
    plausible = plausible[plausible["split"].isin([in_domain, *others])]
    parts.append(plausible.assign(quantity=plausibility + " of " + plausible["method"] + " on " + plausible["split"]))
    return pd.concat(parts, ignore_index=True)[["experiment", "seed", "quantity", "value"]]


def correlations_frame(quantities: pd.DataFrame, *, in_domain: str) -> pd.DataFrame:
    """Returns the correlations, over all runs, between every in-domain quantity and every out-of-domain quantity.

    Args:
        quantities: result of `predictor_rows`.
        in_domain: the in-domain split.
    """
    names = list(quantities["quantity"].unique())
    inside = [name for name in names if name.endswith(f" on {in_domain}")]
    correlations = []
    for x in inside:
        for y in [name for name in names if name not in inside]:
            pairs = paired_runs(quantities, x, y)
            correlations.append((x, y, *correlation(pairs["x"].tolist(), pairs["y"].tolist())))
    return pd.DataFrame(correlations, columns=["x", "y", "pearson", "low", "high", "num_runs"])


def correlations_with(frame: pd.DataFrame, y: str) -> dict[str, Correlation]:
    """Returns in-domain quantity -> its correlation with the quantity `y`; `frame` is from `correlations_frame`."""
    rows = frame[frame["y"] == y]
    columns = [rows[name].tolist() for name in ("x", "pearson", "low", "high", "num_runs")]
    return {x: Correlation(*numbers) for x, *numbers in zip(*columns, strict=True)}


def scatter_panels(quantities: pd.DataFrame, frame: pd.DataFrame, y: str) -> list[PointPanel]:
    """Returns one scatter plot of `y` for each in-domain quantity. The title of a plot is the correlation."""
    panels = []
    for x, pearson in correlations_with(frame, y).items():
        points = paired_runs(quantities, x, y)
        if len(points):
            panels.append(PointPanel(str(pearson), x, y, points))
    return panels


def paired_runs(rows: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Returns a table with the columns experiment, seed, x and y, for the runs that have both quantities.

    Args:
        rows: a table with the columns experiment, seed, quantity and value.
        x, y: two quantities, named as in the column `quantity`.

    Example:
        >>> rows = pd.DataFrame([("tm", 0, "auroc", 0.5), ("tm", 0, "f1", 0.75), ("tm", 1, "f1", 0.25)])
        >>> rows.columns = ["experiment", "seed", "quantity", "value"]
        >>> paired_runs(rows, "auroc", "f1").to_numpy().tolist()
        [['tm', 0, 0.5, 0.75]]
    """
    wide = rows.pivot(index=["experiment", "seed"], columns="quantity", values="value")
    wide = wide.reindex(columns=[x, y]).dropna()
    return wide.set_axis(["x", "y"], axis="columns").reset_index()


def other_splits(rows: pd.DataFrame, in_domain: str) -> list[str]:
    """Returns the out-of-domain splits: all splits except train, validation, test and the in-domain split.

    Example:
        >>> other_splits(pd.DataFrame({"split": ["validation", "test", "imdb"]}), "test")
        ['imdb']
    """
    return [str(split) for split in rows["split"].unique() if split not in ("train", VALIDATION, "test", in_domain)]


def save_figure(figure: Figure, file: Path) -> Path:
    """Writes a figure as a PNG file and returns its path."""
    write_whole(file, partial(save_png, figure_image(figure)))
    return file


def write_pictures(
    rows: pd.DataFrame, scatter: Sequence[PointPanel], layers: Sequence[Panel], curves: Sequence[Panel], *,
    metric: str, output: Path,
) -> list[Path]:  # fmt: skip
    """Always writes spread.png. Also writes scatter.png, layers.png and faithfulness.png, each only if it has panels.

    Returns the paths.
    """
    scores = rows_of_metric(rows, metric)
    written = [save_figure(spread_figure(scores, "split", y_label=metric), output / "spread.png")]
    if scatter:
        written.append(save_figure(scatter_figure(scatter), output / "scatter.png"))
    for name, panels in (("layers", layers), ("faithfulness", curves)):
        if panels:
            written.append(save_figure(curves_figure(panels, max_columns=2), output / f"{name}.png"))
    return written
