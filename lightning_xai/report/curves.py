"""Curves with interval bands, drawn in panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from PIL import Image

# told apart by people of any color vision, also by the markers (Okabe and Ito, 2008)
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F3C8D", "#8C6D31")
MARKERS = "osD^vPX*"
REFERENCE = "#555555"
DOTS_PER_INCH = 150

Role = Literal["curve", "control", "reference"]


@dataclass(frozen=True)
class Curve:
    """Points of a mean and of its interval, each a list of P floats; NaN where there is no interval.

    Attributes:
        name: what the legend shows; the same name has the same color in every panel.
        role: a control has the name of its curve, so its color, and is dashed; a reference is gray.
    """

    name: str
    x: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    role: Role = "curve"


@dataclass(frozen=True)
class Panel:
    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]


def curves_figure(panels: Sequence[Panel], *, max_columns: int = 3) -> Figure:
    """Returns the panels side by side, below them one legend of all."""
    columns = min(len(panels), max_columns)
    rows = math.ceil(len(panels) / columns)
    shown = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves if curve.role != "reference"))
    figure = Figure(figsize=(max(4.2 * columns, 5.0), 3.1 * rows + 0.6), dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    lines = {}
    for panel, axis in zip(panels, axes.flat, strict=False):
        for curve in sorted(panel.curves, key=lambda c: c.role != "reference"):  # the reference lies below
            place = shown.index(curve.name) if curve.role != "reference" else 0
            line = _draw(axis, curve, place)
            if curve.role != "control":
                lines.setdefault((curve.role == "reference", place, curve.name), line)
        axis.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axis.grid(color="#DDDDDD", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_axis_off()
    entries = {name: lines[reference, place, name] for reference, place, name in sorted(lines)}
    if any(curve.role == "control" for panel in panels for curve in panel.curves):
        entries["their positions only"] = Line2D([], [], color=REFERENCE, linestyle="--", linewidth=1.2)
    per_line = max(1, int(figure.get_figwidth() / (0.6 + 0.085 * max(map(len, entries)))))
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=math.ceil(len(entries) / math.ceil(len(entries) / per_line)),  # lines of about one length
        frameon=False,
        fontsize="small",
    )
    return figure


def figure_image(figure: Figure) -> np.ndarray:
    """Returns the figure [height, width, 3] in uint8."""
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()


def save_png(image: np.ndarray, file: Path) -> None:
    """Writes an image [height, width, 3] in uint8, whatever the file's suffix."""
    Image.fromarray(image).save(file, format="PNG", dpi=(DOTS_PER_INCH, DOTS_PER_INCH))


def _draw(axis, curve: Curve, place: int):
    color = REFERENCE if curve.role == "reference" else COLORS[place % len(COLORS)]
    (line,) = axis.plot(
        curve.x,
        curve.mean,
        color=color,
        linestyle={"curve": "-", "control": "--", "reference": "-"}[curve.role],
        linewidth=1.6 if curve.role == "curve" else 1.2,
        marker=MARKERS[place % len(MARKERS)] if curve.role == "curve" else None,
        markersize=3.5,
    )
    if curve.role != "control":  # whose bands would hide the curves
        axis.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.18, linewidth=0)
    return line
