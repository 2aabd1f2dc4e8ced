"""Scatter plots with a point for each run and, if requested, fitted lines with Pearson's r."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lightning_xai.report.correlation import correlation
from lightning_xai.report.curves import COLORS, DOTS_PER_INCH, MARKERS, REFERENCE_COLOR
from lightning_xai.report.tables import wrap

LABEL_WIDTH = 38  # characters in a line of an axis label; more would reach into the next panel


@dataclass(frozen=True)
class PointPanel:
    """One scatter plot, with a point for each run.

    Attributes:
        title: text above the axes.
        x_label, y_label: labels of the axes.
        points: a table with the columns x, y and experiment. All points of an experiment have the same color.
        line: x position of a vertical line; None for no line.

    Example:
        >>> points = pd.DataFrame({"experiment": ["tm"], "x": [0.5], "y": [0.75]})
        >>> PointPanel("imdb", "AUROC", "F1", points).title
        'imdb'
    """

    title: str
    x_label: str
    y_label: str
    points: pd.DataFrame
    line: float | None = None


class FittedLine(NamedTuple):
    """A least-squares line through points, and Pearson's correlation r of these points.

    Example:
        >>> FittedLine(slope=-0.25, intercept=40.0, r=-0.5).slope
        -0.25
    """

    slope: float
    intercept: float
    r: float


def fitted_line(x: Sequence[float], y: Sequence[float]) -> FittedLine:
    """Returns the slope and intercept of the least-squares line through points, and Pearson's r of the points.

    All three values are NaN if r is undefined.

    Example:
        >>> line = fitted_line([0.0, 1.0, 2.0], [5.0, 3.0, 1.0])
        >>> [round(value, 6) for value in line]
        [-2.0, 5.0, -1.0]
    """
    r = correlation(x, y).value
    if math.isnan(r):
        return FittedLine(math.nan, math.nan, math.nan)
    slope, intercept = np.polyfit(np.asarray(x, dtype=float), np.asarray(y, dtype=float), 1)
    return FittedLine(float(slope), float(intercept), r)


def scatter_figure(
    panels: Sequence[PointPanel], *, names: Sequence[str] | None = None, fits_lines: bool = False, max_columns: int = 3
) -> Figure:
    """Returns a figure with the scatter plots. Each experiment has the same color and marker in all panels.

    Args:
        panels: the scatter plots.
        names: the experiments in the order of their colors, with all that have points; None for the order in which the
            panels name them.
        fits_lines: whether to draw a fitted line for each experiment in each panel, with Pearson's r in the legend.
        max_columns: largest number of panels in a row.

    Example:
        >>> points = pd.DataFrame({"experiment": "tm", "x": [5.0, 10.0, 20.0], "y": [40.0, 35.0, 31.0]})
        >>> figure = scatter_figure([PointPanel("imdb", "AUROC", "F1", points)])
        >>> [text.get_text() for text in figure.legends[0].get_texts()]
        ['tm']
        >>> figure = scatter_figure([PointPanel("imdb", "AUROC", "F1", points)], fits_lines=True)
        >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        ['tm (r = -0.97)']
    """
    figure, axes = panel_axes(len(panels), max_columns=max_columns)
    if names is None:
        names = list(dict.fromkeys(name for panel in panels for name in panel.points["experiment"]))
    for panel, axis in zip(panels, axes, strict=False):
        for name, group in panel.points.groupby("experiment", sort=False):
            style = point_style(names.index(name))
            label = _draw_line(axis, str(name), group, style["color"]) if fits_lines else None
            axis.plot(group["x"], group["y"], linestyle="", markersize=5, alpha=0.85, label=label, **style)
        if panel.line is not None:
            axis.axvline(panel.line, color=REFERENCE_COLOR, linewidth=1.0, linestyle="--")
        axis.set_title(panel.title, fontsize="medium")
        axis.set(xlabel="\n".join(wrap(panel.x_label, LABEL_WIDTH)), ylabel="\n".join(wrap(panel.y_label, LABEL_WIDTH)))
        if fits_lines:
            axis.legend(fontsize="small", frameon=False)
    if not fits_lines:
        add_legend(figure, names)
    return figure


def _draw_line(axis: Axes, name: str, points: pd.DataFrame, color: str) -> str:
    """Draws a line fitted to an experiment's points. Returns the experiment's text for the legend."""
    line = fitted_line(points["x"].tolist(), points["y"].tolist())
    if math.isnan(line.r):
        return name
    ends = np.array([points["x"].min(), points["x"].max()])
    axis.plot(ends, line.intercept + line.slope * ends, color=color, linewidth=1.2)
    return f"{name} (r = {line.r:.2f})"


def panel_axes(number: int, *, max_columns: int = 3) -> tuple[Figure, list[Axes]]:
    """Returns a figure with a grid of axes, and a list of the axes, row by row. Only the first `number` are visible.

    Example:
        >>> figure, axes = panel_axes(4)
        >>> [axis.axison for axis in axes]
        [True, True, True, True, False, False]
    """
    num_columns = min(number, max_columns)
    num_rows = math.ceil(number / num_columns)
    size = (max(3.6 * num_columns, 5.0), 3.0 * num_rows + 0.8)
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(num_rows, num_columns, squeeze=False).flat)
    for axis in axes[:number]:
        axis.grid(color="#DDDDDD", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[number:]:
        axis.set_axis_off()
    return figure, axes


def point_style(position: int) -> dict[str, Any]:
    """Returns the color and marker of an experiment; `position` is the index of the experiment in the legend.

    Example:
        >>> point_style(0)
        {'color': '#0072B2', 'marker': 'o'}
    """
    return {"color": COLORS[position % len(COLORS)], "marker": MARKERS[position % len(MARKERS)]}


def add_legend(figure: Figure, names: Sequence[str]) -> None:
    """Adds a legend of all experiments below the panels of a figure.

    Example:
        >>> figure, _ = panel_axes(1)
        >>> add_legend(figure, ["tm", "igr"])
        >>> len(figure.legends[0].get_texts())
        2
    """
    entries = [Line2D([], [], linestyle="", **point_style(place)) for place in range(len(names))]
    per_row = max(1, int(figure.get_figwidth() / (0.6 + 0.085 * max(map(len, names)))))
    columns = math.ceil(len(names) / math.ceil(len(names) / per_row))
    figure.legend(entries, names, loc="outside lower center", ncols=columns, frameon=False, fontsize="small")
