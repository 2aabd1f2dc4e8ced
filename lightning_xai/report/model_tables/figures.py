"""Figures 2, 3, 4 and 6 of Edin et al. (2024), from the results of several models with several seeds."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from lightning_xai.report.model_tables.seed_plots import Boxes, boxes_figure
from lightning_xai.report.scatter import PointPanel, scatter_figure

METHODS = ("attention", "input_x_gradient", "att_in_grad")  # the methods that Figures 3, 4 and 6 compare
TOP_SHARE, EVIDENCE_SHARE = "symbol_share/top_5", "symbol_share/evidence"


def paper_figures(
    rows: pd.DataFrame, *, unsupervised: str | None = None, supervised: str | None = None
) -> dict[str, Figure]:
    """Returns name -> figure. Figures without results are left out.

    "approaches" (Figure 2) has two methods: attention for the models B_S and B_U, and AttInGrad for every other model.
    "faithfulness" (Figure 3) and "plausibility" (Figure 6) compare the three METHODS on all models.
    "symbols" (Figure 4) has a point for each run of B_U and each of the METHODS. The points show f1 or
    comprehensiveness, against the percentage of the top five tokens that have no letter or digit.

    Args:
        rows: rows that `read_models` returns.
        unsupervised: name of the unsupervised baseline, B_U. If None, Figures 2 and 4 are not drawn.
        supervised: name of the supervised baseline, B_S; None if there is no such model.

    Example:
        >>> values = [("B_U", "attention", 0.36), ("B_U", "att_in_grad", 0.41), ("TM", "att_in_grad", 0.42)]
        >>> rows = pd.DataFrame(values, columns=["model", "method", "value"]).assign(run="a", part="all", metric="f1")
        >>> list(paper_figures(rows, unsupervised="B_U"))
        ['approaches', 'plausibility']
    """
    rows = rows[rows["part"] == "all"]
    panels: dict[str, list[Boxes]] = {
        "approaches": _approaches(rows, unsupervised, supervised) if unsupervised else [],
        "faithfulness": _by_model(rows, {"comprehensiveness": 1, "sufficiency": 1}),
        "plausibility": _by_model(rows, {"f1": 100, "iou": 100}),
    }
    figures = {name: boxes_figure(shown) for name, shown in panels.items() if shown}
    scatters = _symbols(rows[rows["model"] == unsupervised])
    return figures | ({"symbols": scatter_figure(scatters, fits_lines=True)} if scatters else {})


def _values(rows: pd.DataFrame, model: str, method: str, metric: str) -> pd.Series:
    """Returns the values of a metric for one model and method, with the names of the runs as index."""
    chosen = rows[(rows["model"] == model) & (rows["method"] == method) & (rows["metric"] == metric)]
    return chosen.set_index("run")["value"].dropna()


def _approaches(rows: pd.DataFrame, unsupervised: str, supervised: str | None) -> list[Boxes]:
    baselines = [("attention", model) for model in (supervised, unsupervised) if model is not None]
    others = [model for model in dict.fromkeys(rows["model"]) if model not in (supervised, unsupervised)]
    panels = []
    for metric in ("f1", "empty", "recall_at_5"):
        groups = {}
        for method, model in [*baselines, *(("att_in_grad", model) for model in others)]:
            values = 100 * _values(rows, model, method, metric)
            if len(values):
                kind = "supervised" if model == supervised else "unsupervised"
                groups[f"{method}\n{model}"] = {kind: list(values)}
        if groups:
            panels.append(Boxes(f"{metric} [%]", groups))
    return panels


def _by_model(rows: pd.DataFrame, metrics: dict[str, int]) -> list[Boxes]:
    """Returns a panel of box plots for each metric: a group of boxes for each model, a box for each method."""
    panels = []
    for metric, scale in metrics.items():
        groups = {}
        for model in dict.fromkeys(rows["model"]):
            by_method = {method: list(scale * _values(rows, model, method, metric)) for method in METHODS}
            if series := {method: values for method, values in by_method.items() if values}:
                groups[str(model)] = series
        if groups:
            panels.append(Boxes(f"{metric} [%]" if scale == 100 else metric, groups))
    return panels


def _symbols(rows: pd.DataFrame) -> list[PointPanel]:
    """Returns the panels of Figure 4 of Edin et al. (2024), from the results of the unsupervised baseline B_U.

    The dashed line shows the percentage of evidence tokens that have no letter or digit.
    """
    shares = rows[rows["metric"] == EVIDENCE_SHARE]["value"]
    label = "top five tokens that have no letter or digit [%]"
    line = 100 * float(shares.mean()) if len(shares) else None
    panels = []
    for metric in ("f1", "comprehensiveness"):
        parts = []
        for method in METHODS:
            wide = rows[rows["method"] == method].pivot(index="run", columns="metric", values="value")
            if {metric, TOP_SHARE} <= set(wide) and len(points := 100 * wide[[TOP_SHARE, metric]].dropna()):
                parts.append(points.set_axis(["x", "y"], axis="columns").assign(experiment=method))
        if parts:
            panels.append(PointPanel("", label, f"{metric} [%]", pd.concat(parts, ignore_index=True), line))
    return panels
