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
from lightning_xai.runs.files.whole_files import write_csv, write_whole
from lightning_xai.runs.splits import VALIDATION

LAYER = re.compile(r"(.+)_layer(\d+)")  # names of methods that explain the hidden states after one layer
OUT_OF_DOMAIN = " out of domain"  # end of the names of means over the out-of-domain splits
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
        selected = without_layers(attribution_rows(rows, metric, preset))
        for split, part in selected.groupby("split", sort=False):
            tables.append(means_table(part, names, "method", title=f"{metric} on {split}, in percent", width=width))
    return tables


def without_layers(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of methods that explain a whole network: not those of alti_layer0, alti_layer1, ...

    Example:
        >>> without_layers(pd.DataFrame({"method": ["alti", "alti_layer0"]}))["method"].tolist()
        ['alti']
    """
    return rows[~rows["method"].str.fullmatch(LAYER.pattern)]


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
        A table with the columns experiment, seed, quantity and value. The quantities are `metric` and the plausibility
        of each method, on each split, and their means over the out-of-domain splits (for the plausibility, over those
        with rationales). A run without a result on one of these splits has no mean.
    """
    plausible = without_layers(attribution_rows(rows, plausibility, preset))
    parts = [
        rows_of_metric(rows, metric).assign(measured=metric),
        plausible.assign(measured=plausibility + " of " + plausible["method"]),
    ]
    measured = pd.concat(parts)
    on_splits, outside = (measured[measured["split"].isin(names)] for names in ([in_domain, *others], others))
    means = outside.groupby(["measured", "experiment", "seed"], sort=False)["value"].agg(["mean", "size"]).reset_index()
    num_splits = means["measured"].map(outside.groupby("measured")["split"].nunique())
    complete = means[means["size"] == num_splits].rename(columns={"mean": "value"})
    on_splits = on_splits.assign(quantity=on_splits["measured"] + " on " + on_splits["split"])
    quantities = [on_splits, complete.assign(quantity=complete["measured"] + OUT_OF_DOMAIN)]
    return pd.concat(quantities, ignore_index=True)[["experiment", "seed", "quantity", "value"]]


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


def out_of_domain_correlations(frame: pd.DataFrame, metric: str, in_domain: str) -> list[tuple[str, str, Correlation]]:
    """Returns triples (in-domain quantity, mean over the out-of-domain splits, their correlation).

    The mean of `metric` is paired with every in-domain quantity. A method's mean plausibility is paired with `metric`
    and with the plausibility of the same method.

    Args:
        frame: result of `correlations_frame`.
        metric: the classification metric.
        in_domain: the in-domain split.
    """
    means = [y for y in frame["y"].unique() if y.endswith(OUT_OF_DOMAIN)]
    triples = []
    for y in sorted(means, key=lambda y: y != metric + OUT_OF_DOMAIN):
        rows = frame[frame["y"] == y]
        if y != metric + OUT_OF_DOMAIN:
            same = f"{y.removesuffix(OUT_OF_DOMAIN)} on {in_domain}"
            rows = rows[rows["x"].isin([f"{metric} on {in_domain}", same])]
        columns = [rows[name].tolist() for name in ("x", "pearson", "low", "high", "num_runs")]
        triples += [(x, y, Correlation(*numbers)) for x, *numbers in zip(*columns, strict=True)]
    return triples


def scatter_panels(quantities: pd.DataFrame, triples: Sequence[tuple[str, str, Correlation]]) -> list[PointPanel]:
    """Returns a scatter plot for each of the triples from `out_of_domain_correlations` for which a run has a point."""
    panels = []
    for x, y, pearson in triples:
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


def write_table_and_figure(stem: Path, table: pd.DataFrame, figure: Figure) -> list[Path]:
    """Writes a table and a figure to `<stem>.csv` and `<stem>.png`, and returns these paths."""
    return [write_csv(table, stem.with_suffix(".csv")), save_figure(figure, stem.with_suffix(".png"))]


def write_pictures(
    rows: pd.DataFrame, scatter: Sequence[PointPanel], layers: Sequence[Panel], curves: Sequence[Panel], *,
    names: Sequence[str], metric: str, output: Path,
) -> list[Path]:  # fmt: skip
    """Always writes spread.png. Writes scatter.png (`metric` out of domain), scatter_plausibility.png (plausibility out
    of domain), layers.png and faithfulness.png only if they have panels.

    Each of the experiments `names` has the same color and marker in all pictures. Returns the paths.
    """
    scores = rows_of_metric(rows, metric)
    written = [save_figure(spread_figure(scores, names, "split", y_label=metric), output / "spread.png")]
    of_metric = [panel for panel in scatter if panel.y_label == metric + OUT_OF_DOMAIN]
    of_plausibility = [panel for panel in scatter if panel.y_label != metric + OUT_OF_DOMAIN]
    for name, points, num_columns in (("scatter", of_metric, 3), ("scatter_plausibility", of_plausibility, 4)):
        if points:
            figure = scatter_figure(points, names=names, max_columns=num_columns)
            written.append(save_figure(figure, output / f"{name}.png"))
    if layers:
        written.append(save_figure(curves_figure(layers, names=names, max_columns=2), output / "layers.png"))
    if curves:  # curves of methods, which have colors of their own
        written.append(save_figure(curves_figure(curves, max_columns=2), output / "faithfulness.png"))
    return written
