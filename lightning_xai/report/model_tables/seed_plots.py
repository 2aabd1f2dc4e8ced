"""Pictures of single runs: boxes over the seeds of groups, and points with a fitted line and Pearson's r."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lightning_xai.report.curves import COLORS, DOTS_PER_INCH, MARKERS, REFERENCE_COLOR


class Boxes(NamedTuple):
    """One pair of axes with a box of values for each group and each series.

    Attributes:
        title: name of the values.
        groups: group on the horizontal axis -> series -> its values, one for each run.

    Example:
        >>> Boxes("f1 [%]", {"B_U": {"attention": [36.0, 37.5]}}).title
        'f1 [%]'
    """

    title: str
    groups: Mapping[str, Mapping[str, Sequence[float]]]


class Scatter(NamedTuple):
    """One pair of axes with a point for each run.

    Attributes:
        title: text above the axes.
        x_label: name of the horizontal axis.
        y_label: name of the vertical axis.
        series: series -> horizontal positions and heights of its points.
        reference: position of a dotted vertical line; None draws none.

    Example:
        >>> Scatter("", "share [%]", "f1 [%]", {"attention": ([5.0, 20.0], [40.0, 31.0])}, reference=5.8).reference
        5.8
    """

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    reference: float | None = None


class FittedLine(NamedTuple):
    """A line by least squares, and the correlation of its points.

    Example:
        >>> FittedLine(slope=-0.25, intercept=40.0, r=-0.5).slope
        -0.25
    """

    slope: float
    intercept: float
    r: float


def fitted_line(x: Sequence[float], y: Sequence[float]) -> FittedLine:
    """Returns the line by least squares through points, and Pearson's r; all NaN if x or y has fewer than two values.

    Example:
        >>> line = fitted_line([0.0, 1.0, 2.0], [5.0, 3.0, 1.0])
        >>> [round(value, 6) for value in line]
        [-2.0, 5.0, -1.0]
    """
    points = np.array([x, y], dtype=float)
    if points.shape[1] < 2 or not (np.ptp(points, axis=1) > 0).all():
        return FittedLine(np.nan, np.nan, np.nan)
    slope, intercept = np.polyfit(points[0], points[1], 1)
    return FittedLine(float(slope), float(intercept), float(np.corrcoef(points)[0, 1]))


def boxes_figure(panels: Sequence[Boxes]) -> Figure:
    """Returns a figure with the panels side by side; series have the same color in all panels.

    Boxes go from the first to the third quartile with the median inside, and points show all runs.

    Example:
        >>> panel = Boxes("f1 [%]", {"B_U": {"attention": [36.0, 37.5]}, "TM": {"attention": [37.0, 38.0]}})
        >>> [text.get_text() for text in boxes_figure([panel]).axes[0].get_xticklabels()]
        ['B_U', 'TM']
    """
    names = list(dict.fromkeys(name for panel in panels for series in panel.groups.values() for name in series))
    figure, axes = _panels(len(panels))
    for panel, axis in zip(panels, axes, strict=True):
        for place, series in enumerate(panel.groups.values()):
            width = 0.7 / max(len(series), 1)
            for number, (name, values) in enumerate(series.items()):
                center = place + (number - (len(series) - 1) / 2) * width
                color = COLORS[names.index(name) % len(COLORS)]
                axis.boxplot(
                    [list(values)], positions=[center], widths=0.8 * width, showfliers=False, manage_ticks=False,
                    boxprops={"color": color}, whiskerprops={"color": color}, capprops={"color": color},
                    medianprops={"color": color, "linewidth": 2},
                )  # fmt: skip
                marker = MARKERS[names.index(name) % len(MARKERS)]
                label = name if name not in axis.get_legend_handles_labels()[1] else None
                axis.plot([center] * len(values), values, marker, color=color, markersize=3, alpha=0.6, label=label)
        axis.set_xticks(range(len(panel.groups)), list(panel.groups), rotation=20 if len(panel.groups) > 3 else 0)
        axis.set_ylabel(panel.title)
    if len(names) > 1:
        axes[0].legend(fontsize="small", frameon=False)
    return figure


def scatter_figure(panels: Sequence[Scatter]) -> Figure:
    """Returns a figure with the panels side by side, and a fitted line and Pearson's r for each series.

    Example:
        >>> series = {"attention": ([5.0, 10.0, 20.0], [40.0, 35.0, 31.0])}
        >>> figure = scatter_figure([Scatter("", "share [%]", "f1 [%]", series)])
        >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        ['attention (r = -0.97)']
    """
    figure, axes = _panels(len(panels))
    for panel, axis in zip(panels, axes, strict=True):
        for number, (name, (x, y)) in enumerate(panel.series.items()):
            color, line = COLORS[number % len(COLORS)], fitted_line(x, y)
            label = name if np.isnan(line.r) else f"{name} (r = {line.r:.2f})"
            axis.plot(x, y, MARKERS[number % len(MARKERS)], color=color, markersize=5, alpha=0.8, label=label)
            if not np.isnan(line.r):
                ends = np.array([min(x), max(x)])
                axis.plot(ends, line.intercept + line.slope * ends, color=color, linewidth=1.2)
        if panel.reference is not None:
            axis.axvline(panel.reference, color=REFERENCE_COLOR, linestyle=":", linewidth=1.2)
        axis.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        axis.legend(fontsize="small", frameon=False)
    return figure


def _panels(num_panels: int) -> tuple[Figure, list]:
    figure = Figure(figsize=(4.6 * num_panels, 3.6), dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(1, num_panels, squeeze=False).flat)
    for axis in axes:
        axis.grid(color="#DDDDDD", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes
