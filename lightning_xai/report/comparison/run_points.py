"""Pictures in which every run is a point: the spread over seeds, and one number against another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lightning_xai.report.curves import COLORS, DOTS_PER_INCH, MARKERS, REFERENCE_COLOR


@dataclass(frozen=True)
class PointPanel:
    """One pair of axes with a point for each run.

    Attributes:
        title: text above the axes.
        x_label, y_label: names of the axes.
        points: the columns experiment, x and y.
        line: position of a vertical line, or None.

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


def scatter_figure(panels: Sequence[PointPanel], *, max_columns: int = 3) -> Figure:
    """Returns a figure with a panel of points for each of `panels`; an experiment has one color and marker in all.

    Example:
        >>> points = pd.DataFrame({"experiment": ["tm", "igr"], "x": [0.5, 0.6], "y": [0.75, 0.7]})
        >>> figure = scatter_figure([PointPanel("imdb", "AUROC", "F1", points)])
        >>> [text.get_text() for text in figure.legends[0].get_texts()]
        ['tm', 'igr']
    """
    figure, axes = _panels(len(panels), max_columns)
    names = list(dict.fromkeys(name for panel in panels for name in panel.points["experiment"]))
    for panel, axis in zip(panels, axes, strict=False):
        for name, group in panel.points.groupby("experiment", sort=False):
            place = names.index(name)
            axis.plot(group["x"], group["y"], linestyle="", markersize=5, alpha=0.85, **_style(place))
        if panel.line is not None:
            axis.axvline(panel.line, color=REFERENCE_COLOR, linewidth=1.0, linestyle="--")
        axis.set_title(panel.title, fontsize="medium")
        axis.set(xlabel=panel.x_label, ylabel=panel.y_label)
        _clean(axis)
    _legend(figure, names)
    return figure


def spread_figure(rows: pd.DataFrame, panels: str, *, y_label: str, max_columns: int = 3) -> Figure:
    """Returns a figure with the value of every run, side by side by experiment, and a bar at the mean.

    Args:
        rows: the columns experiment and value, and the column `panels`.
        panels: name of the column with a panel for each of its values.
        y_label: name of the vertical axes.
        max_columns: largest number of panels in a row.

    Example:
        >>> rows = pd.DataFrame({"experiment": ["tm", "tm"], "split": ["test", "test"], "value": [0.5, 0.7]})
        >>> figure = spread_figure(rows, "split", y_label="macro_f1")
        >>> [axis.get_title() for axis in figure.axes]
        ['test']
    """
    names = [str(name) for name in rows["experiment"].unique()]
    figure, axes = _panels(rows[panels].nunique(), max_columns)
    for (title, part), axis in zip(rows.groupby(panels, sort=False), axes, strict=False):
        for name, group in part.groupby("experiment", sort=False):
            place = names.index(str(name))
            values = group["value"].to_numpy()
            aside = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else np.zeros(1)
            axis.plot(place + aside, values, linestyle="", markersize=4.5, alpha=0.85, **_style(place))
            axis.hlines(values.mean(), place - 0.3, place + 0.3, color=COLORS[place % len(COLORS)], linewidth=1.6)
        axis.set_title(str(title), fontsize="medium")
        axis.set_ylabel(y_label)
        axis.set_xticks(range(len(names)), [""] * len(names))
        axis.set_xlim(-0.6, len(names) - 0.4)
        _clean(axis)
    _legend(figure, names)
    return figure


def _panels(number: int, max_columns: int) -> tuple[Figure, list[Axes]]:
    num_columns = min(number, max_columns)
    num_rows = math.ceil(number / num_columns)
    size = (max(3.6 * num_columns, 5.0), 3.0 * num_rows + 0.8)
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(num_rows, num_columns, squeeze=False).flat)
    for axis in axes[number:]:
        axis.set_axis_off()
    return figure, axes


def _style(place: int) -> dict[str, Any]:
    return {"color": COLORS[place % len(COLORS)], "marker": MARKERS[place % len(MARKERS)]}


def _clean(axis: Axes) -> None:
    axis.grid(color="#DDDDDD", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, names: Sequence[str]) -> None:
    entries = [Line2D([], [], linestyle="", **_style(place)) for place in range(len(names))]
    per_row = max(1, int(figure.get_figwidth() / (0.6 + 0.085 * max(map(len, names)))))
    columns = math.ceil(len(names) / math.ceil(len(names) / per_row))
    figure.legend(entries, names, loc="outside lower center", ncols=columns, frameon=False, fontsize="small")
